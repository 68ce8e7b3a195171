#!/bin/sh
# Debian's Spring, JDBC driver and JDK; the classes go into $BUILD.
set -eu
jars=/usr/share/java
if ! command -v javac >/dev/null || [ ! -e $jars/postgresql.jar ] || [ ! -e $jars/spring3-jdbc.jar ]; then
	apt-get -qq update
	apt-get -qq -y install default-jdk-headless libpostgresql-jdbc-java libspring-jdbc-java libspring-transaction-java libcommons-logging-java >/dev/null
fi
newest=$(ls -t ./*.java | head -n 1)
if [ ! -e "$BUILD/Demo.class" ] || [ "$newest" -nt "$BUILD/Demo.class" ]; then
	javac -d "$BUILD" -cp "$jars/*" ./*.java
fi

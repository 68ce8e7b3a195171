#!/bin/sh
# Debian's JDBC driver and JDK; the classes go into $BUILD.
set -eu
if ! command -v javac >/dev/null || [ ! -e /usr/share/java/postgresql.jar ]; then
	apt-get -qq update
	apt-get -qq -y install default-jdk-headless libpostgresql-jdbc-java >/dev/null
fi
newest=$(ls -t ./*.java | head -n 1)
if [ ! -e "$BUILD/Jdbc.class" ] || [ "$newest" -nt "$BUILD/Jdbc.class" ]; then
	javac -d "$BUILD" -cp /usr/share/java/postgresql.jar ./*.java
fi

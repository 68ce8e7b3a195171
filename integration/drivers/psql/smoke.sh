set -e
psql -qAt -c 'create table customers(id int primary key, n text); create table users(id int primary key, email text)'
$DECLARE customers=id users=id lookup:users.email
psql -qAt -c "insert into customers select i, 'x'||i from generate_series(1,100) i"
echo "ok count: $(psql -qAt -c 'select count(*) from customers')"
psql -qAt -c "insert into users values (1,'a@b')"
echo "ok find: $(psql -qAt -c "select id from users where email='a@b'")"
$RESTART
sleep 1
echo "ok after: $(psql -qAt -c 'select count(*) from customers')"
psql -c '\conninfo'

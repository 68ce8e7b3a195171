-- The functions through which functions on a shard notify. In a transaction of one shard, weft.pg_notify does what
-- pg_notify does. In a transaction that may become one of several shards (weft.carry is on), weft.pg_notify leaves a
-- note in the transaction's settings, which ROLLBACK TO takes back with everything else. weft collects the notes with
-- weft.notes before the commit and sends them with weft.tell on the shard that decides.
--
-- A note is a line: the time, the channel and the payload, these two in hexadecimal digits. A setting holds about
-- 32 kB of notes, because each change of a setting copies it.
--
-- Names and operators are written with their schema, so that the caller's search_path means nothing.
CREATE OR REPLACE FUNCTION weft.pg_notify(channel text, payload text) RETURNS void
LANGUAGE plpgsql PARALLEL RESTRICTED AS $weft$
DECLARE
	part pg_catalog.text;
	notes pg_catalog.text;
	code pg_catalog.text;
BEGIN
	IF COALESCE(pg_catalog.current_setting('weft.carry', true), '') OPERATOR(pg_catalog.<>) 'on' THEN
		PERFORM pg_catalog.pg_notify(channel, payload);
		RETURN;
	END IF;
	channel := COALESCE(channel, '');
	payload := COALESCE(payload, '');
	IF channel OPERATOR(pg_catalog.=) '' THEN
		RAISE invalid_parameter_value USING MESSAGE = 'channel name cannot be empty';
	ELSIF pg_catalog.octet_length(channel) OPERATOR(pg_catalog.>=) 64 THEN
		RAISE invalid_parameter_value USING MESSAGE = 'channel name too long';
	ELSIF pg_catalog.octet_length(payload) OPERATOR(pg_catalog.>=) 8000 THEN
		RAISE invalid_parameter_value USING MESSAGE = 'payload string too long';
	END IF;
	code := pg_catalog.getdatabaseencoding();
	part := COALESCE(pg_catalog.current_setting('weft.noted', true), '');
	IF part OPERATOR(pg_catalog.=) '' THEN
		part := '1';
	END IF;
	notes := COALESCE(pg_catalog.current_setting('weft.notes_' OPERATOR(pg_catalog.||) part, true), '');
	IF pg_catalog.length(notes) OPERATOR(pg_catalog.>) 32000 THEN
		part := (part::pg_catalog.int4 OPERATOR(pg_catalog.+) 1)::pg_catalog.text;
		notes := '';
	END IF;
	PERFORM pg_catalog.set_config('weft.noted', part, true);
	PERFORM pg_catalog.set_config('weft.notes_' OPERATOR(pg_catalog.||) part, pg_catalog.concat(notes,
		pg_catalog.to_char(pg_catalog.clock_timestamp() AT TIME ZONE 'UTC', 'YYYYMMDDHH24MISSUS'), ' ',
		pg_catalog.encode(pg_catalog.convert_to(channel, code), 'hex'), ' ',
		pg_catalog.encode(pg_catalog.convert_to(payload, code), 'hex'), E'\n'), true);
END $weft$;

CREATE OR REPLACE FUNCTION weft.notes() RETURNS text LANGUAGE sql AS $weft$
	SELECT pg_catalog.string_agg(pg_catalog.current_setting(pg_catalog.concat('weft.notes_', n), true), '' ORDER BY n)
	FROM pg_catalog.generate_series(1, pg_catalog.concat('0', pg_catalog.current_setting('weft.noted', true))::pg_catalog.int4) n
$weft$;

CREATE OR REPLACE FUNCTION weft.tell(notes text) RETURNS void LANGUAGE plpgsql AS $weft$
DECLARE
	note pg_catalog.text[];
	code pg_catalog.text := pg_catalog.getdatabaseencoding();
BEGIN
	FOR note IN SELECT pg_catalog.string_to_array(line, ' ')
		FROM pg_catalog.unnest(pg_catalog.string_to_array(notes, E'\n')) line WHERE line OPERATOR(pg_catalog.<>) '' LOOP
		PERFORM pg_catalog.pg_notify(pg_catalog.convert_from(pg_catalog.decode(note[2], 'hex'), code),
			pg_catalog.convert_from(pg_catalog.decode(note[3], 'hex'), code));
	END LOOP;
	PERFORM pg_catalog.set_config('weft.carry', '', true);
END $weft$;

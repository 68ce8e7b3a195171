package schema

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
)

// Functions of schema weft that change what weft keeps are called on the backends of
// clients, in their transactions and by their roles. So everybody may call them, and a proof shows
// that the call is weft's: a hash over the function, its arguments and the backend's process,
// which only those can make who know the database's secret. It travels as a parameter, which
// others of the same role do not see in pg_stat_activity; and where somebody sees it none the
// less, it is good for the same call on the same backend alone.

// provedBy is the function that checks it, for those functions alone.
const provedBy = `CREATE OR REPLACE FUNCTION weft.prove(call text, proof text) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $f$
DECLARE
 secret text;
BEGIN
 SELECT o.key INTO secret FROM weft.own o;
 IF NOT coalesce(proof = encode(sha256(convert_to(secret || encode(sha256(convert_to(secret || pg_backend_pid()::text || E'\n' || call, 'UTF8')), 'hex'), 'UTF8')), 'hex'), false) THEN
  RAISE insufficient_privilege USING MESSAGE = 'what weft keeps is changed by weft alone', HINT = 'Change the table, through weft: lookups follow.';
 END IF;
END $f$`

// Prove makes the proof of a call on a backend.
func (o *Own) Prove(pid int32, call ...string) string {
	sum := func(text string) string {
		h := sha256.Sum256([]byte(o.Key + text))
		return hex.EncodeToString(h[:])
	}
	return sum(sum(strconv.Itoa(int(pid)) + "\n" + strings.Join(call, "\n")))
}

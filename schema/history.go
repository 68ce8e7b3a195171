package schema

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"weft/directory"
	"weft/pgerr"
	"weft/quote"
)

// keepRounds is how many rounds, and how many jobs that are over, a database remembers.
const keepRounds = 1000

// MoveRecord is what the home shard knows of a job.
type MoveRecord struct {
	ID, Kind, User, Proxy string
	// State is "" until the job is over.
	State, Reason string
	From, To      []string
	// Origin are the buckets of the job by the shard that had them before it, as ReadBuckets reads
	// them. They have the numbers of a cluster with Count buckets, 0 for as many as it was created with.
	Origin          map[string]string
	Count           int
	Buckets, Done   int64
	Rows, Bytes     int64
	Rounds, GivenUp int64
	Rate            float64 // bytes per second, over the last minute of the job
	Median, P99     float64 // of what writers were held for, in milliseconds
	Max             float64
	ReadP99         float64
	LastOutcome     string // of the last round
	Started, Ended  time.Time
	LastRound       time.Time
}

// MoveRound is what became of one round.
type MoveRound struct {
	Number        int64
	Job           string
	Ended         time.Time
	Ways          string
	Buckets       int64
	Outcome       string
	Rows, Bytes   int64
	Writes, Reads float64 // milliseconds
}

// countKey stands, among the shards of MoveRecord.Origin, for MoveRecord.Count. No shard has that name.
const countKey = ""

// Carried is the outcome of a round that went through.
const Carried = "carried"

// home opens a session on the home shard that knows the tables of jobs.
func (m *Mover) home(ctx context.Context, home, database string) (*session, error) {
	s, err := open(ctx, m.cfg.Shards, home, database, m.cfg.Service, "weft moves")
	if err != nil {
		return nil, err
	}
	if _, err := install(s, database, m.cfg.Service); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// rememberMove notes a job that begins, with where its buckets are now, unless it is noted. It
// returns how many buckets the job has to move altogether.
func (m *Mover) rememberMove(s *session, snap *directory.Snapshot, move *directory.Move) (int64, error) {
	now, target := snap.PlacementOf(move.Database, move.Group), snap.Targets[move.ID]
	lists := map[string][]int{}
	var from, to []string
	count := 0
	for b := range min(len(now), len(target)) {
		if now[b] == target[b] || int(now[b]) >= len(snap.Shards) || int(target[b]) >= len(snap.Shards) {
			continue
		}
		f, t := snap.Shards[now[b]].Name, snap.Shards[target[b]].Name
		lists[f] = append(lists[f], b)
		count++
		if !slices.Contains(from, f) {
			from = append(from, f)
		}
		if !slices.Contains(to, t) {
			to = append(to, t)
		}
	}
	origin := map[string]string{}
	for shard, list := range lists {
		origin[shard] = Ranges(list)
	}
	if snap.FirstBuckets > 0 {
		origin[countKey] = strconv.Itoa(snap.BucketCount)
	}
	text, err := json.Marshal(origin)
	if err != nil {
		return 0, err
	}
	_, err = s.ExecOne("INSERT INTO weft.move_job (id, kind, username, origin, from_shards, to_shards, buckets, proxy) VALUES ($1, $2, $3, $4::jsonb, $5::text[], $6::text[], $7::bigint, $8) "+
		"ON CONFLICT (id) DO UPDATE SET proxy = excluded.proxy",
		move.ID, string(move.Kind), move.User, string(text), array(from), array(to), strconv.Itoa(count), move.Proxy)
	if err != nil {
		return 0, s.explain(err)
	}
	total, err := s.one("SELECT buckets FROM weft.move_job WHERE id = " + quote.Literal(move.ID))
	return number(total), err
}

// NoteRounds notes rounds of a job.
func (m *Mover) NoteRounds(ctx context.Context, home, database, job string, rounds []MoveRound) error {
	if len(rounds) == 0 {
		return nil
	}
	s, err := m.home(ctx, home, database)
	if err != nil {
		return err
	}
	defer s.close()
	var values []string
	var rows, bytes, given int64
	var longest float64
	for _, r := range rounds {
		values = append(values, fmt.Sprintf("(%s, %s, %s, %d, %s, %d, %d, %g, %g)", quote.Literal(job), quote.Literal(r.Ended.UTC().Format(time.RFC3339Nano)), quote.Literal(r.Ways),
			r.Buckets, quote.Literal(r.Outcome), r.Rows, r.Bytes, r.Writes, r.Reads))
		rows, bytes, longest = rows+r.Rows, bytes+r.Bytes, max(longest, r.Writes)
		if r.Outcome != Carried {
			given++
		}
	}
	return s.run("BEGIN",
		"INSERT INTO weft.move_round (job, ended, ways, buckets, outcome, rows, bytes, write_pause_ms, read_pause_ms) VALUES "+strings.Join(values, ", "),
		fmt.Sprintf("UPDATE weft.move_job SET rows = rows + %d, bytes = bytes + %d, rounds = rounds + %d, given_up = given_up + %d, pause_max_ms = greatest(pause_max_ms, %g) WHERE id = %s",
			rows, bytes, len(rounds), given, longest, quote.Literal(job)),
		fmt.Sprintf("DELETE FROM weft.move_round WHERE number <= (SELECT max(number) - %d FROM weft.move_round)", keepRounds),
		"COMMIT")
}

// EndMove notes that a job is over: done, cancelled or failed. The snapshot still has the job.
func (m *Mover) EndMove(ctx context.Context, snap *directory.Snapshot, move *directory.Move, state, reason string) error {
	s, err := m.home(ctx, snap.Home, move.Database)
	if err != nil {
		return err
	}
	defer s.close()
	if _, err := m.rememberMove(s, snap, move); err != nil {
		return err
	}
	left := 0
	now, target := snap.PlacementOf(move.Database, move.Group), snap.Targets[move.ID]
	for b := range min(len(now), len(target)) {
		if now[b] != target[b] {
			left++
		}
	}
	return s.run(fmt.Sprintf("UPDATE weft.move_job SET state = %s, reason = nullif(%s, ''), ended = pg_catalog.clock_timestamp(), buckets_done = greatest(0, buckets - %d) WHERE id = %s",
		quote.Literal(state), quote.Literal(reason), left, quote.Literal(move.ID)),
		fmt.Sprintf("DELETE FROM weft.move_job WHERE ended IS NOT NULL AND id NOT IN (SELECT id FROM weft.move_job ORDER BY started DESC LIMIT %d)", keepRounds))
}

// Moves lists the jobs that a database remembers, the latest first.
func (m *Mover) Moves(ctx context.Context, home, database string) ([]MoveRecord, error) {
	s, err := m.home(ctx, home, database)
	if err != nil {
		return nil, err
	}
	defer s.close()
	rows, err := s.Exec(`SELECT j.id, j.kind, coalesce(j.username, ''), coalesce(j.proxy, ''), coalesce(j.state, ''), coalesce(j.reason, ''), array_to_json(j.from_shards), array_to_json(j.to_shards), j.origin,
	j.buckets, j.buckets_done, j.rows, j.bytes, j.rounds, j.given_up, coalesce(j.pause_max_ms, 0), coalesce(r.p50, 0), coalesce(r.p99, 0), coalesce(r.read_p99, 0), coalesce(r.last_outcome, ''),
	coalesce(r.minute, 0) / greatest(0.001, least(60, extract(epoch FROM coalesce(r.last, j.started) - j.started))),
	extract(epoch FROM j.started), coalesce(extract(epoch FROM j.ended), 0), coalesce(extract(epoch FROM r.last), 0)
FROM weft.move_job j LEFT JOIN (
	SELECT r.job, percentile_disc(0.5) WITHIN GROUP (ORDER BY r.write_pause_ms) AS p50, percentile_disc(0.99) WITHIN GROUP (ORDER BY r.write_pause_ms) AS p99,
		percentile_disc(0.99) WITHIN GROUP (ORDER BY r.read_pause_ms) AS read_p99, max(r.ended) AS last, (array_agg(r.outcome ORDER BY r.number DESC))[1] AS last_outcome,
		sum(r.bytes) FILTER (WHERE r.ended > l.last - interval '1 minute') AS minute
	FROM weft.move_round r JOIN (SELECT job, max(ended) AS last FROM weft.move_round GROUP BY job) l USING (job) GROUP BY r.job) r ON r.job = j.id
ORDER BY j.started DESC, j.id`)
	if err != nil {
		return nil, err
	}
	var out []MoveRecord
	for _, r := range rows {
		e := MoveRecord{
			ID: r[0], Kind: r[1], User: r[2], Proxy: r[3], State: r[4], Reason: r[5], Buckets: number(r[9]), Done: number(r[10]), Rows: number(r[11]), Bytes: number(r[12]),
			Rounds: number(r[13]), GivenUp: number(r[14]), Max: float(r[15]), Median: float(r[16]), P99: float(r[17]), ReadP99: float(r[18]), LastOutcome: r[19], Rate: float(r[20]),
			Started: epoch(r[21]), Ended: epoch(r[22]), LastRound: epoch(r[23]),
		}
		for text, into := range map[string]any{r[6]: &e.From, r[7]: &e.To, r[8]: &e.Origin} {
			if err := json.Unmarshal([]byte(text), into); err != nil {
				return nil, fmt.Errorf("job %s in weft.move_job: %w", e.ID, err)
			}
		}
		if text, grown := e.Origin[countKey]; grown {
			e.Count = int(number(text))
			delete(e.Origin, countKey)
		}
		out = append(out, e)
	}
	return out, nil
}

// MoveRounds lists the rounds that a database remembers, the latest first.
func (m *Mover) MoveRounds(ctx context.Context, home, database string) ([]MoveRound, error) {
	s, err := m.home(ctx, home, database)
	if err != nil {
		return nil, err
	}
	defer s.close()
	rows, err := s.Exec("SELECT number, job, extract(epoch FROM ended), ways, buckets, outcome, rows, bytes, write_pause_ms, read_pause_ms FROM weft.move_round ORDER BY number DESC")
	if err != nil {
		return nil, err
	}
	var out []MoveRound
	for _, r := range rows {
		out = append(out, MoveRound{
			Number: number(r[0]), Job: r[1], Ended: epoch(r[2]), Ways: r[3], Buckets: number(r[4]), Outcome: r[5], Rows: number(r[6]), Bytes: number(r[7]), Writes: float(r[8]), Reads: float(r[9]),
		})
	}
	return out, nil
}

func float(s string) float64 {
	f, _ := strconv.ParseFloat(s, 64)
	return f
}

// epoch reads seconds since 1970, 0 as the zero time.
func epoch(s string) time.Time {
	f := float(s)
	if f == 0 {
		return time.Time{}
	}
	return time.UnixMicro(int64(f * 1e6))
}

// array writes an array of names as PostgreSQL reads it.
func array(list []string) string {
	quoted := make([]string, len(list))
	for i, s := range list {
		quoted[i] = `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
	}
	return "{" + strings.Join(quoted, ",") + "}"
}

// Ranges writes a sorted list of buckets as ReadBuckets reads it: 0-63,70.
func Ranges(list []int) string {
	var b strings.Builder
	for i := 0; i < len(list); {
		j := i
		for j+1 < len(list) && list[j+1] == list[j]+1 {
			j++
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(list[i]))
		if j > i {
			b.WriteString("-" + strconv.Itoa(list[j]))
		}
		i = j + 1
	}
	return b.String()
}

// ReadBuckets reads a list of buckets and ranges of buckets, such as 0-63,70. count is how many
// buckets there are.
func ReadBuckets(text string, count int) ([]int, error) {
	var out []int
	for part := range strings.SplitSeq(text, ",") {
		first, last, both := strings.Cut(strings.TrimSpace(part), "-")
		if !both {
			last = first
		}
		a, err1 := strconv.Atoi(strings.TrimSpace(first))
		b, err2 := strconv.Atoi(strings.TrimSpace(last))
		if err1 != nil || err2 != nil || a < 0 || b < a || b >= count {
			return nil, pgerr.New(pgerr.InvalidParameterValue, "%q is no bucket and no range of buckets", part).
				WithDetail("There are the buckets 0 to %d.", count-1).WithHint("Write '17', or '0-63,70'.")
		}
		for ; a <= b; a++ {
			out = append(out, a)
		}
	}
	return out, nil
}

// Package importing imports a database that is written to all the time, kills the importer at each of its steps, and compares
// every row on both sides at the end.
//
//	load ──▶ source ──▶ weft import (killed, started again) ──▶ weft ──▶ two shards
package importing

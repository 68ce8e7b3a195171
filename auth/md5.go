package auth

import (
	"bytes"
	"crypto/md5"
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"strings"

	"weft/pgerr"
)

const (
	codeMD5 = 5

	// maxPassword is PostgreSQL's limit for a password message, less the four
	// bytes in which its length counts itself.
	maxPassword = 65535 - 4
)

// isMD5 reports whether a stored password is an MD5 hash, by PostgreSQL's test.
func isMD5(stored string) bool {
	return len(stored) == 35 && stored[:3] == "md5" && strings.Trim(stored[3:], "0123456789abcdef") == ""
}

// md5Password hashes as pg_authid stores it and as clients answer: the second
// argument is the user name for the stored form and the salt for the answer.
func md5Password(password, salt string) string {
	sum := md5.Sum([]byte(password + salt))
	return "md5" + hex.EncodeToString(sum[:])
}

// md5 asks for an MD5 answer if the stored password can check one. A user who
// has a verifier is asked for SCRAM, which every client that can do MD5 and is
// younger than 2017 can do too: PostgreSQL does the same.
func (d *dialogue) md5() error {
	var stored string
	switch {
	case d.account == nil, d.account.user.Password == "":
		if !d.mock.md5 {
			return d.scram()
		}
	case d.account.md5 == "":
		return d.scram()
	default:
		stored = d.account.md5
	}
	var salt [4]byte
	rand.Read(salt[:])
	if err := d.send(codeMD5, salt[:]); err != nil {
		return err
	}
	body, err := d.receive("password", maxPassword)
	if err != nil {
		return err
	}
	answer, rest, ok := bytes.Cut(body, []byte{0})
	if !ok || len(rest) > 0 {
		return pgerr.Fatal(pgerr.ProtocolViolation, "invalid password packet size")
	}
	if len(answer) == 0 {
		return pgerr.Fatal(pgerr.InvalidPassword, "empty password returned by client")
	}
	// A stranger's answer takes the same work; whether it is right is then not asked.
	want := md5Password(strings.TrimPrefix(stored, "md5"), string(salt[:]))
	right := subtle.ConstantTimeCompare(answer, []byte(want)) == 1
	switch {
	case d.account == nil:
		return d.refuse(errUnknownUser)
	case stored == "":
		return d.refuse(errNoPassword)
	case !right:
		return d.refuse(errWrongPassword)
	}
	if formOf(d.account.user.Password) == formMD5 {
		d.keys = &Keys{md5: stored}
	}
	return nil
}

// Why a password was refused. The client is never told which.
var (
	errUnknownUser   = errors.New("user is unknown")
	errNoPassword    = errors.New("user has no password")
	errNoVerifier    = errors.New("user does not have a valid SCRAM secret: an md5 hash cannot answer scram-sha-256")
	errWrongPassword = errors.New("password does not match")
)

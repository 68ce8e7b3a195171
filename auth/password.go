package auth

import (
	"crypto/sha256"
	"crypto/subtle"
)

// Check reports whether password is the one that is stored, in a form that
// User.Password has, for a user of this name. It is for passwords that arrive in
// clear text, over HTTP. Where nothing is stored no password is right.
func Check(user, stored, password string) bool {
	switch formOf(stored) {
	case formClear:
		// Of the same length, whatever was sent.
		a, b := sha256.Sum256([]byte(stored)), sha256.Sum256([]byte(password))
		return subtle.ConstantTimeCompare(a[:], b[:]) == 1
	case formMD5:
		return subtle.ConstantTimeCompare([]byte(stored), []byte(md5Password(password, user))) == 1
	case formVerifier:
		v, err := parseVerifier(stored)
		if err != nil {
			return false
		}
		got, err := deriveVerifier(password, v.salt, v.iterations)
		return err == nil && subtle.ConstantTimeCompare(got.storedKey, v.storedKey) == 1
	}
	return false
}

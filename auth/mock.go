package auth

import (
	"crypto/hmac"
	"crypto/sha256"
)

// mock plays the part of users who do not exist or whose password cannot be
// checked, so that a client cannot tell them from a wrong password.
type mock struct {
	secret []byte
	md5    bool // most users answer to MD5, so under method md5 strangers are asked for MD5 too
}

// salt is the salt of a user of this name: asked twice it must be the same, as
// a real user's is.
func (m mock) salt(user string) []byte {
	h := hmac.New(sha256.New, m.secret)
	h.Write([]byte(user))
	return h.Sum(nil)[:saltLength]
}

// verifier matches no password: nothing hashes to its StoredKey.
func (m mock) verifier(user string) *verifier {
	return &verifier{
		iterations: defaultIterations,
		salt:       m.salt(user),
		storedKey:  make([]byte, sha256.Size),
		serverKey:  make([]byte, sha256.Size),
	}
}

package auth

import (
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

const (
	verifierPrefix    = scramSHA256 + "$"
	defaultIterations = 4096
	saltLength        = 16
)

// Verifier makes a SCRAM-SHA-256 verifier of a clear-text password, with a
// random salt, in the form that pg_authid.rolpassword has: what is stored in
// weft.yaml or given to ALTER ROLE instead of the password.
func Verifier(password string) (string, error) { return newVerifier(password, defaultIterations) }

// Stored returns what PostgreSQL keeps of a password that a user of this name is
// given: the password itself if it has a stored form already, else one that is made
// as password_encryption and scram_iterations say. The same for all servers: each
// would draw a salt of its own.
func Stored(user, password, encryption string, iterations int) (string, error) {
	if _, err := parseVerifier(password); err == nil || password == "" || isMD5(password) {
		return password, nil
	}
	switch encryption {
	case string(MethodMD5):
		return md5Password(password, user), nil
	case string(MethodScramSHA256):
		return newVerifier(password, iterations)
	}
	return "", fmt.Errorf("password_encryption is %q, which weft does not know", encryption)
}

func newVerifier(password string, iterations int) (string, error) {
	if password == "" {
		return "", errors.New("password is empty")
	}
	if strings.ContainsRune(password, 0) {
		return "", errors.New("password contains a zero byte")
	}
	salt := make([]byte, saltLength)
	rand.Read(salt)
	v, err := deriveVerifier(password, salt, iterations)
	if err != nil {
		return "", err
	}
	return v.String(), nil
}

// verifier is what a server keeps of a password (RFC 5803).
type verifier struct {
	iterations int
	salt       []byte
	storedKey  []byte
	serverKey  []byte
}

func deriveVerifier(password string, salt []byte, iterations int) (*verifier, error) {
	salted, err := pbkdf2.Key(sha256.New, saslprep(password), salt, iterations, sha256.Size)
	if err != nil {
		return nil, fmt.Errorf("derive SCRAM keys: %w", err)
	}
	storedKey := sha256.Sum256(sign(salted, []byte("Client Key")))
	return &verifier{
		iterations: iterations,
		salt:       salt,
		storedKey:  storedKey[:],
		serverKey:  sign(salted, []byte("Server Key")),
	}, nil
}

// parseVerifier reads the stored form. Its errors name the part that is wrong
// and never quote it.
func parseVerifier(s string) (*verifier, error) {
	rest, ok := strings.CutPrefix(s, verifierPrefix)
	iterations, rest, ok1 := strings.Cut(rest, ":")
	salt, rest, ok2 := strings.Cut(rest, "$")
	stored, server, ok3 := strings.Cut(rest, ":")
	if !ok || !ok1 || !ok2 || !ok3 {
		return nil, errors.New("SCRAM verifier is not of the form SCRAM-SHA-256$iterations:salt$StoredKey:ServerKey")
	}
	var v verifier
	var err error
	v.iterations, err = strconv.Atoi(iterations)
	if err != nil || v.iterations < 1 || v.iterations > math.MaxInt32 {
		return nil, errors.New("SCRAM verifier: iterations is not a positive number")
	}
	if v.salt, err = decodeBase64(salt); err != nil {
		return nil, errors.New("SCRAM verifier: salt is not base64")
	}
	if v.storedKey, err = decodeBase64(stored); err != nil || len(v.storedKey) != sha256.Size {
		return nil, errors.New("SCRAM verifier: StoredKey is not 32 bytes in base64")
	}
	if v.serverKey, err = decodeBase64(server); err != nil || len(v.serverKey) != sha256.Size {
		return nil, errors.New("SCRAM verifier: ServerKey is not 32 bytes in base64")
	}
	return &v, nil
}

// String returns the stored form.
func (v *verifier) String() string {
	enc := base64.StdEncoding
	return fmt.Sprintf("%s%d:%s$%s:%s", verifierPrefix, v.iterations,
		enc.EncodeToString(v.salt), enc.EncodeToString(v.storedKey), enc.EncodeToString(v.serverKey))
}

// decodeBase64 refuses the line breaks that the standard library skips:
// PostgreSQL does, and no part of a SCRAM message may contain them.
func decodeBase64(s string) ([]byte, error) {
	if strings.ContainsAny(s, "\r\n") {
		return nil, errors.New("line break in base64")
	}
	return base64.StdEncoding.DecodeString(s)
}

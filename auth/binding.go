package auth

import (
	"crypto"
	_ "crypto/sha256" // linked in for crypto.Hash
	_ "crypto/sha512"
	"crypto/x509"
)

// endpointBinding returns the tls-server-end-point data of a certificate (RFC
// 5929): its hash by the hash function of its own signature, with SHA-256 in
// place of the broken ones. It is nil where the RFC defines none (Ed25519): then
// SCRAM-SHA-256-PLUS is not offered, which serves clients that prefer channel
// binding; PostgreSQL offers it and fails them.
func endpointBinding(certificate []byte) []byte {
	if len(certificate) == 0 {
		return nil
	}
	cert, err := x509.ParseCertificate(certificate)
	if err != nil {
		return nil
	}
	var hash crypto.Hash
	switch cert.SignatureAlgorithm {
	case x509.MD5WithRSA, x509.SHA1WithRSA, x509.DSAWithSHA1, x509.ECDSAWithSHA1,
		x509.SHA256WithRSA, x509.SHA256WithRSAPSS, x509.DSAWithSHA256, x509.ECDSAWithSHA256:
		hash = crypto.SHA256
	case x509.SHA384WithRSA, x509.SHA384WithRSAPSS, x509.ECDSAWithSHA384:
		hash = crypto.SHA384
	case x509.SHA512WithRSA, x509.SHA512WithRSAPSS, x509.ECDSAWithSHA512:
		hash = crypto.SHA512
	default:
		return nil
	}
	h := hash.New()
	h.Write(cert.Raw)
	return h.Sum(nil)
}

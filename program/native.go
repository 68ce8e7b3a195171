package program

import "weft/pgerr"

// native is a refusal of PL/pgSQL itself, in its own words: a program may catch it, and clients see what they would see without weft.
func native(message string) *pgerr.Error { return pgerr.New(pgerr.FeatureNotSupported, "%s", message) }

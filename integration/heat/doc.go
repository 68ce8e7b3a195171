// Package heat gives weft a load whose hot keys are known, and compares what weft says of them.
package heat

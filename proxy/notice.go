package proxy

import (
	"regexp"
	"strings"

	"weft/pgerr"
)

// minMessages finds client_min_messages among command line options.
var minMessages = regexp.MustCompile(`client[_-]min[_-]messages\s*=\s*'?(\w+)`)

// unwanted reports whether the client has said that it does not want messages of this severity.
// Settings of the client's role or database are not known here.
func (o *answers) unwanted(severity pgerr.Severity) bool {
	if severity != pgerr.SeverityNotice && severity != pgerr.SeverityWarning {
		return false
	}
	level, set := o.s.record.settings.Get("client_min_messages")
	if !set && o.s.lane != nil {
		key := o.s.lane.Key()
		if level = key.Param("client_min_messages"); level == "" {
			if m := minMessages.FindStringSubmatch(key.Param("options")); m != nil {
				level = m[1]
			}
		}
	}
	return quiets(level, severity)
}

// quiets reports whether a level of client_min_messages keeps a message from the client.
func quiets(level string, severity pgerr.Severity) bool {
	switch strings.ToLower(strings.Trim(level, "'")) {
	case "error", "fatal", "panic":
		return true
	case "warning":
		return severity == pgerr.SeverityNotice
	}
	return false
}

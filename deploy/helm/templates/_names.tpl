{{- define "weft.labels" -}}
app.kubernetes.io/name: weft
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
{{- define "weft.mounts" -}}
{{- range .Values.files }}
- {name: files-{{ .name }}, mountPath: /etc/weft-files/{{ .name }}, readOnly: true}
{{- end }}
{{- if eq .Values.shards.operator "cnpg" }}
{{- range .Values.shards.names }}
- {name: files-{{ . }}-ca, mountPath: /etc/weft-files/{{ . }}-ca, readOnly: true}
{{- end }}
{{- end }}
{{- end }}
{{- define "weft.files" -}}
{{- range .Values.files }}
- name: files-{{ .name }}
  {{- if index . "secret" }}
  secret: {secretName: {{ .secret }}}
  {{- else }}
  configMap: {name: {{ .configMap }}}
  {{- end }}
{{- end }}
{{- if eq .Values.shards.operator "cnpg" }}
{{- range .Values.shards.names }}
- name: files-{{ . }}-ca
  secret:
    secretName: {{ $.Release.Name }}-{{ . }}-ca
    items: [{key: ca.crt, path: ca.crt}]
{{- end }}
{{- end }}
{{- end }}
{{- define "weft.pullSecrets" -}}
{{- if .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml .Values.imagePullSecrets | nindent 2 }}
{{- end }}
{{- end }}
{{- define "weft.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "jobman.labels" -}}
app.kubernetes.io/name: jobman
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "jobman.scheme" -}}
{{ if .Values.tls.secret }}HTTPS{{ else }}HTTP{{ end }}
{{- end -}}

{{- define "jobman.replicas" -}}
{{ if .Values.database.secret }}{{ .Values.replicas }}{{ else }}1{{ end }}
{{- end -}}

{{- define "jobman.rights" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: { drop: [ALL] }
{{- end -}}

{{- /* Not empty if the servers need the volume. */ -}}
{{- define "jobman.volume" -}}
{{ if not (and .Values.database.secret .Values.data) }}yes{{ end }}
{{- end -}}

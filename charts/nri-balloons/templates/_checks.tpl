{{/* A null takes a default away. Where nothing can stand in for it, say which value is missing. */}}
{{- define "nri-balloons.check" -}}
{{- range $key := list
  "enabled" "image.repository" "image.pullPolicy" "pluginIndex" "nodeResourceTopology" "metrics.enabled" "metrics.port"
  "probes.readiness" "probes.liveness" "hostWritable" "runtimeEnabling.enabled" "runtimeEnabling.runtime"
  "runtimeEnabling.image.repository" "runtimeEnabling.image.pullPolicy" "serviceAccount.create" "rbac.create"
  "terminationGracePeriodSeconds" "updateStrategy.type" "updateStrategy.maxUnavailable"
}}
{{- $value := $.Values }}
{{- range splitList "." $key }}
{{- if kindIs "map" $value }}
{{- $value = index $value . }}
{{- end }}
{{- end }}
{{- if kindIs "invalid" $value }}
{{- fail (printf "%s is null; leave it out to get its default" $key) }}
{{- end }}
{{- end }}
{{- end -}}

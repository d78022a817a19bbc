{{- define "bayplan-scheduler.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "bayplan-scheduler.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "bayplan-scheduler.name" -}}
{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "bayplan-scheduler.configuration" -}}
{{- $profile := merge (dict "schedulerName" .Values.schedulerName) .Values.profile -}}
{{- $own := dict "apiVersion" "kubescheduler.config.k8s.io/v1" "kind" "KubeSchedulerConfiguration" "profiles" (list $profile) -}}
{{- $lease := dict "leaderElect" true "resourceNamespace" .Release.Namespace "resourceName" (include "bayplan-scheduler.name" .) -}}
{{- toYaml (merge $own (dict "leaderElection" $lease) .Values.configuration) -}}
{{- end }}

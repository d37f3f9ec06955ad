{{/* Names, labels and image. */}}

{{- define "judgestream.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* At most 44 characters: a StatefulSet adds a part ("-monitor") and labels its pods with a revision ("-" and 10), 63 in all. */}}
{{- define "judgestream.fullname" -}}
{{- $name := include "judgestream.name" . }}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 44 | trimSuffix "-" }}
{{- else if contains $name .Release.Name }}
{{- .Release.Name | trunc 44 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 44 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "judgestream.selectorLabels" -}}
app.kubernetes.io/name: {{ include "judgestream.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "judgestream.labels" -}}
{{- $labels := dict
  "helm.sh/chart" (printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-")
  "app.kubernetes.io/version" (.Values.image.tag | default .Chart.AppVersion | trunc 63 | trimSuffix "-")
  "app.kubernetes.io/part-of" "judgestream"
  "app.kubernetes.io/managed-by" .Release.Service }}
{{- $labels = merge (include "judgestream.selectorLabels" . | fromYaml) $labels .Values.commonLabels }}
{{- toYaml $labels }}
{{- end }}

{{/* Metadata of an object; context: root, name, and optionally namespace, component, labels, annotations. */}}
{{- define "judgestream.metadata" -}}
{{- $root := .root }}
{{- $labels := include "judgestream.labels" $root | fromYaml }}
{{- if .component }}{{ $_ := set $labels "app.kubernetes.io/component" .component }}{{ end -}}
name: {{ .name }}
namespace: {{ .namespace | default $root.Release.Namespace }}
labels:
  {{- toYaml (merge $labels (.labels | default dict)) | nindent 2 }}
{{- with merge (deepCopy (.annotations | default dict)) $root.Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "judgestream.image" -}}
{{- with .Values.image }}
{{- if .digest }}
{{- printf "%s@%s" .repository .digest }}
{{- else }}
{{- printf "%s:%s" .repository (.tag | default $.Chart.AppVersion) }}
{{- end }}
{{- end }}
{{- end }}

{{- define "judgestream.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- .Values.serviceAccount.name | default (include "judgestream.fullname" .) }}
{{- else }}
{{- .Values.serviceAccount.name | default "default" }}
{{- end }}
{{- end }}

{{- define "judgestream.port" -}}
{{- dig "telemetry" "port" 8080 .Values.config | int }}
{{- end }}

{{- define "judgestream.scheme" -}}
{{- ternary "https" "http" (not (empty (dig "telemetry" "tls" dict .Values.config))) }}
{{- end }}

{{- define "judgestream.configYaml" -}}
{{- toYaml .Values.config }}
{{- end }}

{{/* Maximum seconds from SIGTERM to a worker's end: stop_seconds and CLOSE_SECONDS of streams/worker/run.py. */}}
{{- define "judgestream.drainSeconds" -}}
{{- $timeout := dig "judge" "timeout_seconds" 30 .Values.config | float64 | ceil | int }}
{{- add 15 (max 20 (min 120 (add 5 $timeout))) }}
{{- end }}

{{/* Further seconds to close the port and the connections to judges. */}}
{{- define "judgestream.drainMarginSeconds" -}}
10
{{- end }}

{{/* The workloads by part: name, agents, consumer group, topics it reads, and settings. */}}
{{- define "judgestream.parts" -}}
{{- $fullname := include "judgestream.fullname" . }}
{{- $group := dig "kafka" "group_id" "judgestream" .Values.config }}
{{- $topics := dig "topics" dict .Values.config }}
{{- $events := list ($topics.events | default "qa.events") }}
{{- $scores := list ($topics.scores | default "qa.scores") }}
{{- $tasks := list }}
{{- range $metric := .Values.config.metrics | default (dict "coverage" dict "relevance" dict) | keys | sortAlpha }}
{{- $tasks = append $tasks (printf "%sjudge.tasks.%s" ($topics.prefix | default "") $metric) }}
{{- end }}
{{- $parts := dict }}
{{- if eq .Values.mode "split" }}
{{- $reads := dict "intake" $events "judge" $tasks "monitor" $scores }}
{{- range $part := list "intake" "judge" "monitor" }}
{{- $settings := mergeOverwrite (deepCopy $.Values.worker) (deepCopy (index $.Values.split $part)) }}
{{- $_ := set $parts $part (dict
  "name" (printf "%s-%s" $fullname $part) "agents" $part "group" (printf "%s.%s" $group $part)
  "topics" (index $reads $part) "judges" (eq $part "judge") "settings" $settings) }}
{{- end }}
{{- else }}
{{- $_ := set $parts "worker" (dict
  "name" $fullname "agents" "" "group" $group "topics" (concat $events $tasks $scores)
  "judges" true "settings" (deepCopy .Values.worker)) }}
{{- end }}
{{- if .Values.store.enabled }}
{{- $settings := mergeOverwrite (deepCopy .Values.worker) (deepCopy .Values.store.worker) }}
{{- $_ := set $settings "kind" "StatefulSet" }}
{{- $_ := set $settings "replicas" 1 }}
{{- $_ := set $settings "updateStrategy" dict }}
{{- $_ := set $settings "podDisruptionBudget" (dict "enabled" false "minAvailable" nil) }}
{{- $_ := set $settings "cache" (dict "enabled" false "persistent" false) }}
{{- $_ := set $settings "autoscaling" (dict "hpa" (dict "enabled" false) "keda" (dict "enabled" false)) }}
{{- $_ := set $parts "store" (dict
  "name" (printf "%s-store" $fullname) "agents" "store" "group" $group "topics" list "judges" false "settings" $settings) }}
{{- end }}
{{- toYaml $parts }}
{{- end }}

{{- define "judgestream.scaled" -}}
{{- if or .autoscaling.hpa.enabled .autoscaling.keda.enabled }}true{{ end }}
{{- end }}

{{/* The port of an address. */}}
{{- define "judgestream.portOf" -}}
{{- $url := urlParse . }}
{{- regexFind ":[0-9]+$" $url.host | trimPrefix ":" | default (ternary "80" "443" (eq $url.scheme "http")) }}
{{- end }}

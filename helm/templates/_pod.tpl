{{/* Common parts of the pods of workers, topics Job and test. */}}

{{/* Variables from Secrets; context: a map like values.secretEnv. */}}
{{- define "judgestream.secretEnv" -}}
{{- range $name, $source := . }}
- name: {{ $name }}
  valueFrom:
    secretKeyRef: {name: {{ $source.name | quote }}, key: {{ $source.key | quote }}}
{{- end }}
{{- end }}

{{- define "judgestream.fileMounts" -}}
- name: config
  mountPath: /etc/judgestream
  readOnly: true
{{- range $name := keys .Values.secretFiles | sortAlpha }}
- name: secret-{{ $name }}
  mountPath: /secrets/{{ $name }}
  readOnly: true
{{- end }}
- name: tmp
  mountPath: /tmp
{{- end }}

{{/* Context: root, configMap, packs (whether prompt packs are needed). Whole folders are mounted, never single files, so
     that changed Secrets are updated. */}}
{{- define "judgestream.fileVolumes" -}}
- name: config
  projected:
    defaultMode: 0444
    sources:
      - configMap:
          name: {{ .configMap }}
          items:
            - {key: config.yaml, path: config.yaml}
      {{- with and .packs .root.Values.promptPacks }}
      - configMap:
          name: {{ $.configMap }}-packs
          items:
            {{- range $file := keys . | sortAlpha }}
            - {key: {{ $file | quote }}, path: {{ printf "packs/%s" $file | quote }}}
            {{- end }}
      {{- end }}
      {{- range ternary .root.Values.promptPackConfigMaps list .packs }}
      - configMap:
          name: {{ .name }}
          items:
            {{- range .keys }}
            - {key: {{ . | quote }}, path: {{ printf "packs/%s" . | quote }}}
            {{- end }}
      {{- end }}
{{- range $name := keys .root.Values.secretFiles | sortAlpha }}
{{- $source := index $.root.Values.secretFiles $name }}
- name: secret-{{ $name }}
  secret:
    secretName: {{ $source.name }}
    defaultMode: 0440
    {{- with $source.keys }}
    items:
      {{- range . }}
      - {key: {{ . | quote }}, path: {{ . | quote }}}
      {{- end }}
    {{- end }}
{{- end }}
- name: tmp
  emptyDir: {sizeLimit: 256Mi}
{{- end }}

{{/* No token, and no variables about Services: those of a Service named judgestream would be read as settings. */}}
{{- define "judgestream.podBasics" -}}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- end }}

{{- define "judgestream.checksum" -}}
{{- $packs := .Values.promptPacks | default dict }}
{{- printf "%s\n%s" (include "judgestream.configYaml" .) (toYaml $packs) | sha256sum }}
{{- end }}

{{/* The pod template of one part; context: root, part (its key), one (its entry in judgestream.parts). */}}
{{- define "judgestream.podTemplate" -}}
{{- $root := .root }}
{{- $settings := .one.settings }}
{{- $values := $root.Values }}
{{- $selector := include "judgestream.selectorLabels" $root | fromYaml }}
{{- $_ := set $selector "app.kubernetes.io/component" .part }}
{{- $labels := omit (include "judgestream.labels" $root | fromYaml) "helm.sh/chart" }}
{{- $labels = merge (deepCopy $selector) (dict "judgestream/worker" "true") $labels $settings.podLabels -}}
metadata:
  labels:
    {{- toYaml $labels | nindent 4 }}
  annotations:
    {{- $annotations := dict "checksum/config" (include "judgestream.checksum" $root) "kubectl.kubernetes.io/default-container" "worker" }}
    {{- toYaml (merge (deepCopy $settings.podAnnotations) $annotations $values.commonAnnotations) | nindent 4 }}
spec:
  {{- include "judgestream.podBasics" $root | nindent 2 }}
  serviceAccountName: {{ include "judgestream.serviceAccountName" $root }}
  {{- with $settings.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- with $settings.schedulerName }}
  schedulerName: {{ . }}
  {{- end }}
  {{- with $settings.hostAliases }}
  hostAliases:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $settings.runtimeClassName }}
  runtimeClassName: {{ . }}
  {{- end }}
  {{- with $settings.podSecurityContext }}
  securityContext:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  terminationGracePeriodSeconds: {{ include "judgestream.gracePeriod" (dict "settings" $settings "root" .root) }}
  {{- if or $settings.initContainers $values.doctor.enabled (and $values.offlineJudge.enabled .one.judges) }}
  initContainers:
    {{- with $settings.initContainers }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
    {{- if and $values.offlineJudge.enabled .one.judges }}
    # Stays beside the worker (restartPolicy), starts before it and ends after it.
    - name: offline-judge
      image: {{ include "judgestream.image" $root }}
      imagePullPolicy: {{ $values.image.pullPolicy }}
      restartPolicy: Always
      args:
        - offline-judge
        - --port
        - "8000"
        {{- if $values.offlineJudge.latencySeconds }}
        - --latency-seconds
        - {{ $values.offlineJudge.latencySeconds | quote }}
        {{- end }}
      {{- with $settings.securityContext }}
      securityContext:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.offlineJudge.resources }}
      resources:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      # It listens on loopback only, so that the kubelet has to ask from inside.
      startupProbe:
        exec:
          command:
            - python3
            - -c
            - import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/v1/models', timeout=2)
        periodSeconds: 2
        timeoutSeconds: 5
        failureThreshold: 30
    {{- end }}
    {{- if $values.doctor.enabled }}
    - name: doctor
      image: {{ include "judgestream.image" $root }}
      imagePullPolicy: {{ $values.image.pullPolicy }}
      args:
        - doctor
        - --config
        - /etc/judgestream/config.yaml
        {{- with .one.agents }}
        - --agents
        - {{ . }}
        {{- end }}
        - --wait
        - {{ $values.doctor.waitSeconds | quote }}
        {{- with $values.doctor.extraArgs }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with include "judgestream.environment" (dict "root" $root "one" .one) | trim }}
      {{- . | nindent 6 }}
      {{- end }}
      {{- with $settings.securityContext }}
      securityContext:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $settings.resources }}
      resources:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      volumeMounts:
        {{- include "judgestream.fileMounts" $root | nindent 8 }}
        {{- with $settings.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    {{- end }}
  {{- end }}
  containers:
    - name: worker
      image: {{ include "judgestream.image" $root }}
      imagePullPolicy: {{ $values.image.pullPolicy }}
      args:
        - worker
        - --config
        - /etc/judgestream/config.yaml
        {{- with .one.agents }}
        - --agents
        - {{ . }}
        {{- end }}
        {{- with $settings.extraArgs }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with include "judgestream.environment" (dict "root" $root "one" .one) | trim }}
      {{- . | nindent 6 }}
      {{- end }}
      ports:
        - name: http
          containerPort: {{ include "judgestream.port" $root }}
          protocol: TCP
      {{- range $probe, $path := dict "startupProbe" "/healthz" "livenessProbe" "/healthz" "readinessProbe" "/readyz" }}
      {{ $probe }}:
        httpGet: {path: {{ $path }}, port: http, scheme: {{ include "judgestream.scheme" $root | upper }}}
        {{- toYaml (index $settings $probe) | nindent 8 }}
      {{- end }}
      {{- if $settings.preStopSeconds }}
      lifecycle:
        preStop:
          sleep:
            seconds: {{ int $settings.preStopSeconds }}
      {{- end }}
      {{- with $settings.securityContext }}
      securityContext:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $settings.resources }}
      resources:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      volumeMounts:
        {{- include "judgestream.fileMounts" $root | nindent 8 }}
        {{- if $settings.cache.enabled }}
        - name: cache
          mountPath: /var/cache/judgestream
        {{- end }}
        {{- if eq .part "store" }}
        - name: store
          mountPath: /var/lib/judgestream
        {{- end }}
        {{- with $settings.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    {{- with $settings.sidecars }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  volumes:
    {{- include "judgestream.fileVolumes" (dict "root" $root "configMap" (include "judgestream.fullname" $root) "packs" true) | nindent 4 }}
    {{- if and $settings.cache.enabled (not $settings.cache.persistent) }}
    - name: cache
      emptyDir: {sizeLimit: {{ $settings.cache.size }}}
    {{- end }}
    {{- if and (eq .part "store") $values.store.volume.existingClaim }}
    - name: store
      persistentVolumeClaim: {claimName: {{ $values.store.volume.existingClaim }}}
    {{- end }}
    {{- with $settings.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- if $settings.affinity }}
  affinity:
    {{- toYaml $settings.affinity | nindent 4 }}
  {{- else if ne $settings.podAntiAffinity "none" }}
  affinity:
    podAntiAffinity:
      {{- if eq $settings.podAntiAffinity "hard" }}
      requiredDuringSchedulingIgnoredDuringExecution:
        - topologyKey: kubernetes.io/hostname
          labelSelector:
            matchLabels:
              {{- toYaml $selector | nindent 14 }}
      {{- else }}
      preferredDuringSchedulingIgnoredDuringExecution:
        - weight: 100
          podAffinityTerm:
            topologyKey: kubernetes.io/hostname
            labelSelector:
              matchLabels:
                {{- toYaml $selector | nindent 16 }}
      {{- end }}
  {{- end }}
  {{- with $settings.topologySpreadConstraints }}
  topologySpreadConstraints:
    {{- range . }}
    - {{- toYaml (merge (deepCopy .) (dict "labelSelector" (dict "matchLabels" $selector))) | nindent 6 }}
    {{- end }}
  {{- end }}
  {{- with $settings.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $settings.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}

{{- define "judgestream.gracePeriod" -}}
{{- if kindIs "invalid" .settings.terminationGracePeriodSeconds }}
{{- add (int .settings.preStopSeconds) (include "judgestream.drainSeconds" .root | int) (include "judgestream.drainMarginSeconds" . | int) }}
{{- else }}
{{- int .settings.terminationGracePeriodSeconds }}
{{- end }}
{{- end }}

{{/* `env` and `envFrom` of a worker or its doctor. */}}
{{- define "judgestream.environment" -}}
{{- $settings := .one.settings }}
{{- $values := .root.Values }}
{{- $offline := and $values.offlineJudge.enabled .one.judges }}
{{- $store := eq .one.agents "store" }}
{{- $explorer := ternary "" $values.explorerUrl (hasKey (dig "store" dict $values.config) "explorer_url") }}
{{- if or $store $explorer $offline $values.secretEnv $settings.extraEnv }}
env:
  {{- if $store }}
  - name: JUDGESTREAM_STORE__PATH
    value: /var/lib/judgestream/store.sqlite3
  {{- end }}
  {{- with $explorer }}
  - name: JUDGESTREAM_STORE__EXPLORER_URL
    value: {{ . | quote }}
  {{- end }}
  {{- if $offline }}
  - name: OPENAI_BASE_URL
    value: http://127.0.0.1:8000/v1
  - name: OPENAI_MODEL
    value: offline-rules-1
  {{- end }}
  {{- with $values.secretEnv }}
  {{- include "judgestream.secretEnv" . | trim | nindent 2 }}
  {{- end }}
  {{- with $settings.extraEnv }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
{{- with $settings.extraEnvFrom }}
envFrom:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

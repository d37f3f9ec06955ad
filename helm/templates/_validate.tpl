{{/* Checks beyond the schema: values that exclude each other. Each message names the values and the remedy. */}}
{{- define "judgestream.validate" -}}
{{- $problems := list }}
{{- $config := .Values.config }}
{{- range $part, $one := include "judgestream.parts" . | fromYaml }}
{{- $where := ternary "worker" (ternary "store.worker" (printf "split.%s" $part) (eq $part "store")) (eq $part "worker") }}
{{- with $one.settings }}
{{- if and .autoscaling.hpa.enabled .autoscaling.keda.enabled }}
{{- $problems = append $problems (printf "%s.autoscaling: hpa and keda would scale the same workload against each other; enable one" $where) }}
{{- end }}
{{- range $kind := list "hpa" "keda" }}
{{- $scaler := index $one.settings.autoscaling $kind }}
{{- if and $scaler.enabled (gt (int $scaler.minReplicas) (int $scaler.maxReplicas)) }}
{{- $problems = append $problems (printf "%s.autoscaling.%s.minReplicas must be at most maxReplicas (%d), got %d; lower it" $where $kind (int $scaler.maxReplicas) (int $scaler.minReplicas)) }}
{{- end }}
{{- end }}
{{- if and .autoscaling.keda.enabled .autoscaling.keda.authenticationRef .autoscaling.keda.triggerAuthentication }}
{{- $problems = append $problems (printf "%s.autoscaling.keda: authenticationRef and triggerAuthentication exclude each other; keep one" $where) }}
{{- end }}
{{- $least := add (int .preStopSeconds) (int (include "judgestream.drainSeconds" $)) }}
{{- if and (not (kindIs "invalid" .terminationGracePeriodSeconds)) (lt (int .terminationGracePeriodSeconds) (int $least)) }}
{{- $problems = append $problems (printf "%s.terminationGracePeriodSeconds must be at least %d (preStopSeconds and %s to finish records in flight and to commit), got %d; raise it or set null" $where (int $least) (include "judgestream.drainSeconds" $) (int .terminationGracePeriodSeconds)) }}
{{- end }}
{{- if and .cache.persistent (ne .kind "StatefulSet") }}
{{- $problems = append $problems (printf "%s.cache.persistent needs a volume per worker, which a Deployment cannot provide; set %s.kind to StatefulSet" $where $where) }}
{{- end }}
{{- if and .podDisruptionBudget.enabled (not (kindIs "invalid" .podDisruptionBudget.minAvailable)) (not (include "judgestream.scaled" .)) (gt (int .replicas) 0) }}
{{- $stay := .podDisruptionBudget.minAvailable | toString }}
{{- $pods := ternary (divf (mulf (trimSuffix "%" $stay) .replicas) 100 | ceil) $stay (hasSuffix "%" $stay) | int }}
{{- if ge $pods (int .replicas) }}
{{- $problems = append $problems (printf "%s.podDisruptionBudget.minAvailable (%s) requires all %d replicas: no node could be drained; lower it" $where $stay (int .replicas)) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- if and .Values.serviceMonitor.enabled .Values.podMonitor.enabled }}
{{- $problems = append $problems "serviceMonitor and podMonitor would scrape every metric twice; enable one" }}
{{- end }}
{{- if and .Values.offlineJudge.enabled (dig "judge" "endpoints" list $config) }}
{{- $problems = append $problems "offlineJudge.enabled has no effect with config.judge.endpoints; disable it or remove them" }}
{{- end }}
{{- if has (dig "telemetry" "host" "127.0.0.1" $config) (list "127.0.0.1" "localhost" "::1") }}
{{- $problems = append $problems "config.telemetry.host is a loopback address, which neither probes nor Prometheus can reach; set 0.0.0.0 (or ::)" }}
{{- end }}
{{- if eq (include "judgestream.port" .) "0" }}
{{- $problems = append $problems "config.telemetry.port must be a fixed port, got 0; set for example 8080" }}
{{- end }}
{{- if dig "telemetry" "tls" "client_ca_file" "" $config }}
{{- $problems = append $problems "config.telemetry.tls.client_ca_file requires a certificate from the kubelet's probes, which have none; remove it and use telemetry.basic_auth" }}
{{- end }}
{{- if and .Values.store.enabled (hasKey (dig "store" dict $config) "path") }}
{{- $problems = append $problems "config.store.path is not on the volume of store.enabled; remove it" }}
{{- end }}
{{- range $kind := list "ingress" "httpRoute" }}
{{- $values := index $.Values $kind }}
{{- if and $values.enabled (not $values.host) (not $values.explorerHost) }}
{{- $problems = append $problems (printf "%s.enabled needs a name to be reached by; set %s.host, %s.explorerHost or both" $kind $kind $kind) }}
{{- end }}
{{- if and $values.enabled $values.explorerHost (not $.Values.store.enabled) }}
{{- $problems = append $problems (printf "%s.explorerHost has no explorer to lead to; set store.enabled" $kind) }}
{{- end }}
{{- end }}
{{- if and .Values.httpRoute.enabled (not .Values.httpRoute.parentRefs) }}
{{- $problems = append $problems "httpRoute.enabled needs a gateway; name it in httpRoute.parentRefs" }}
{{- end }}
{{- range regexFindAll "[a-z]+://[^/\\s\"'@]+@" (toYaml $config) -1 }}
{{- $problems = append $problems (printf "config has an address with a login (%s://...@...), which everybody who may read the ConfigMap would see; take the login out and name a variable or a file (username and password_env, token_env)" (splitList ":" . | first)) }}
{{- end }}
{{- $file := dig "judge" "cache" "file" "" $config | toString }}
{{- if hasPrefix "/var/cache/judgestream/" $file }}
{{- range $part, $one := include "judgestream.parts" . | fromYaml }}
{{- if and $one.judges (not $one.settings.cache.enabled) }}
{{- $problems = append $problems (printf "config.judge.cache.file is in /var/cache/judgestream, which does not exist; set %s.cache.enabled" (ternary "worker" "split.judge" (eq $part "worker"))) }}
{{- end }}
{{- end }}
{{- end }}
{{- if $problems }}
{{- fail (printf "\n\n%d values are invalid:\n  - %s\n" (len $problems) (join "\n  - " $problems)) }}
{{- end }}
{{- end }}

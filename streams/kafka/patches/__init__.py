"""Patches of aiokafka and Faust, with reasons; `needed` lists every private name that is used.

For the whole process, when the first client is created (`install`), never at import:

| what | why |
|---|---|
| `aiokafka.client.create_conn` | opens connections with a password that is read again, and reports refusals (`streams.kafka.access.connections`); closes half-open ones (`access.connection`) |
| `AIOKafkaClient.bootstrap` | closes its connection if it is cancelled (`access.connections`) |
| `aiokafka.conn.READER_LIMIT` | reads a response in larger pieces |
| `aiokafka.consumer.fetcher.MemoryRecords` | keeps a batch's bytes, so that a batch that cannot be parsed becomes a dead letter (`fetched`) |
| `gzip_decode`, `snappy_decode`, `lz4_decode`, `zstd_decode` of aiokafka's parsers | limit the decompressed size of a batch (`codecs`), and detect records with too many headers (`crowded`) |

On the worker's own consumer, by `streams.kafka.transport`:

| what | why |
|---|---|
| `AIOKafkaConsumer._isolation_level`, `_fetch_max_wait_ms` | Faust has no setting for them |
| `Fetcher._client` | checks CRC-32C with the processor's instruction (`transport.checksums`) |
| `FetchResult._partition_records` | one record never blocks the others (`transport.unpacking`) |
| `Fetcher._records`, `fetched_records`, `_create_fetch_waiter` | fetches from the partitions that have room |
| `GroupCoordinator._send_req`, `_do_heartbeat` | records the time of the coordinator's last response, and detects fencing (`transport.membership`) |
| `Consumer`, `Producer`, `Transport`, `AIOKafkaConsumerThread` of Faust's driver, subclassed | commits in order, push-down, room by topic, idempotent producer |
| `faust.App._create_directories`, `crash`; `TableManager.on_start`; `Monitor` | no files, no tables, no statistics of Faust's own |
"""  # noqa: E501

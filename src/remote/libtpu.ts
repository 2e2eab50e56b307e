// libtpu: the metrics of the TPU chips. While a program uses the chips, its libtpu answers on a port of the loopback
// interface, with gRPC and without encryption. Source: tpu_metric_service.proto, metrics.py and cli_helper.py of tpu-info
// 0.14.2 (github.com/AI-Hypercomputer/cloud-accelerator-diagnostics), read in November 2026. The requests were tried with
// a gRPC server made of its own stubs, and the tables are its own output for that server.

/** The first of `TPU_RUNTIME_METRICS_PORTS`, and the default. It answers for all chips of the worker. */
export const libtpuPort = 8431;

const dutyCycleMetric = 'tpu.runtime.tensorcore.dutycycle.percent';

/** The body of a `GetRuntimeMetric` request: a gRPC frame (one byte for compression, four for the length) with a `MetricRequest`. */
export const dutyCycleRequest: Uint8Array = frame(
  Buffer.concat([Buffer.from([0x0a, dutyCycleMetric.length]), Buffer.from(dutyCycleMetric)]),
);

/** A gRPC frame without compression. */
export function frame(message: Uint8Array): Uint8Array {
  const head = Buffer.alloc(5);
  head.writeUInt32BE(message.length, 1);
  return Buffer.concat([head, message]);
}

/**
 * The mean of the chips, from 0 to 100. Null for an answer without it, or one that is not a valid answer: any program on
 * the host may have opened the port.
 */
export function parseDutyCycle(answer: Buffer): number | null {
  if (answer.length < 5 || answer[0] !== 0) return null;
  try {
    // MetricResponse.metric, TPUMetric.metrics, Metric.gauge, Gauge.as_double or Gauge.as_int.
    const metrics = fieldsOf(answer.subarray(5, 5 + answer.readUInt32BE(1)), 1).flatMap((metric) =>
      fieldsOf(metric, 3),
    );
    const gauges = metrics.flatMap((metric) => fieldsOf(metric, 3));
    return meanPercent(
      gauges.flatMap((gauge) => [
        ...fieldsOf(gauge, 1).map((bytes) => bytes.readDoubleLE(0)),
        ...fieldsOf(gauge, 2).map((bytes) => readVarint(bytes, 0).value),
      ]),
    );
  } catch (error) {
    if (error instanceof RangeError) return null;
    throw error;
  }
}

/** The mean of the duty cycles in the table that `tpu-info` prints; null without one. */
export function parseTpuInfo(lines: readonly string[]): number | null {
  const from = lines.findIndex((line) => /duty cycle/i.test(line));
  if (from < 0) return null;
  // The title of the next table has no percentages; that table may have others.
  const length = lines.slice(from + 1).findIndex((line) => /^\s*[A-Za-z]/.test(line));
  const rows = lines.slice(from + 1, length < 0 ? undefined : from + 1 + length);
  return meanPercent(
    rows.flatMap((row) => [...row.matchAll(/(\d+(?:\.\d+)?)\s*%/g)].map(([, value]) => Number(value))),
  );
}

function meanPercent(values: readonly number[]): number | null {
  const valid = values.filter((value) => value >= 0 && value <= 100);
  if (valid.length === 0) return null;
  return Math.round((10 * valid.reduce((sum, value) => sum + value, 0)) / valid.length) / 10;
}

/** The values of that field of a Protocol Buffers message. Throws RangeError for bytes that are not a message. */
function fieldsOf(message: Buffer, field: number): readonly Buffer[] {
  const found: Buffer[] = [];
  for (let at = 0; at < message.length;) {
    const tag = readVarint(message, at);
    const length = lengthOf(message, tag.end, tag.value & 7);
    if (length.end > message.length) throw new RangeError('a field ends after its message');
    if (tag.value >>> 3 === field) found.push(message.subarray(length.from, length.end));
    at = length.end;
  }
  return found;
}

/** Wire types: https://protobuf.dev/programming-guides/encoding/#structure. */
function lengthOf(message: Buffer, at: number, wireType: number): { readonly from: number; readonly end: number } {
  if (wireType === 0) return { from: at, end: readVarint(message, at).end };
  if (wireType === 1) return { from: at, end: at + 8 };
  if (wireType === 5) return { from: at, end: at + 4 };
  if (wireType !== 2) throw new RangeError(`a field has the wire type ${wireType}`);
  const { value, end } = readVarint(message, at);
  return { from: end, end: end + value };
}

function readVarint(message: Buffer, at: number): { readonly value: number; readonly end: number } {
  let value = 0;
  for (let index = 0; index < 10; index += 1) {
    const byte = message.readUInt8(at + index);
    value += (byte & 0x7f) * 2 ** (7 * index);
    if (byte < 0x80) return { value, end: at + index + 1 };
  }
  throw new RangeError('a number has more than ten bytes');
}

// Protobuf: the form in which an API server tells long lists at less than half of the effort that JSON costs it and us. Only the
// fields that a shape names are read; all others, which are most of the bytes, are stepped over. What comes out are objects as
// JSON has them, with what is empty left out, so that whoever reads them need not know in which form they came.
// The encoding: https://protobuf.dev/programming-guides/encoding/

/** What a field holds. A time and an amount are messages of Kubernetes that JSON writes as texts; bytes are not copied. */
export type Kind = 'bytes' | 'text' | 'whole' | 'truth' | 'time' | 'amount' | { readonly [number: number]: Field };

/** A field of a message: one value, a list of them, or a map from texts to them. */
export type Field =
  | { readonly name: string; readonly kind: Kind; readonly is?: 'list' }
  | { readonly name: string; readonly kind: 'text' | 'amount'; readonly is: 'map' };

/** A message: its fields by their numbers, which never change meaning. */
export type Shape = { readonly [number: number]: Field };

/** How a value is laid down (the low three bits of a tag). */
const layout = { varint: 0, eight: 1, sized: 2, four: 5 } as const;

/** The part of `bytes` that is the message, as far as the shape names it. Throws RangeError for what is no protobuf. */
export function readMessage(bytes: Uint8Array, shape: Shape): Record<string, unknown> {
  return read({ bytes: Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength), at: 0 }, bytes.length, shape);
}

/** Where the reading stands. */
interface Reader {
  readonly bytes: Buffer;
  at: number;
}

function read(reader: Reader, end: number, shape: Shape): Record<string, unknown> {
  const found: Record<string, unknown> = {};
  while (reader.at < end) {
    const tag = varint(reader);
    const field = shape[tag >>> 3];
    const laid = tag & 7;
    if (laid === layout.varint) {
      const value = varint(reader);
      if (field?.kind === 'whole') found[field.name] = value;
      else if (field?.kind === 'truth') found[field.name] = value !== 0;
    } else if (laid === layout.sized) {
      const size = varint(reader);
      const last = reader.at + size;
      if (last > end) throw new RangeError(`a field of ${size} bytes reaches over the end of its message`);
      if (field !== undefined) put(found, field, reader, last);
      reader.at = last;
    } else if (laid === layout.eight) reader.at += 8;
    else if (laid === layout.four) reader.at += 4;
    else throw new RangeError(`no value is laid down as ${laid}`);
  }
  return found;
}

/** What a map holds for each key, as a message. */
const entryShapes: Readonly<Record<'text' | 'amount', Shape>> = {
  text: { 1: { name: 'key', kind: 'text' }, 2: { name: 'value', kind: 'text' } },
  amount: { 1: { name: 'key', kind: 'text' }, 2: { name: 'value', kind: 'amount' } },
};

function put(found: Record<string, unknown>, field: Field, reader: Reader, last: number): void {
  const { name } = field;
  if (field.is === 'map') {
    const { key = '', value = '' } = read(reader, last, entryShapes[field.kind]) as {
      readonly key?: string;
      value?: string;
    };
    const map = (found[name] ??= Object.create(null)) as Record<string, string>;
    map[key] = value;
    return;
  }
  const value = valueOf(reader, last, field.kind);
  if (field.is === 'list') ((found[name] ??= []) as unknown[]).push(value);
  else if (value !== undefined) found[name] = value;
}

/** Undefined for what is empty. */
function valueOf(reader: Reader, last: number, kind: Kind): unknown {
  if (typeof kind === 'object') return read(reader, last, kind);
  if (kind === 'text') return reader.at === last ? undefined : reader.bytes.toString('utf8', reader.at, last);
  if (kind === 'bytes') return reader.bytes.subarray(reader.at, last);
  if (kind === 'amount') return read(reader, last, amount)['text'];
  if (kind === 'time') {
    const { seconds } = read(reader, last, time) as { readonly seconds?: number };
    return seconds === undefined ? undefined : new Date(seconds * 1_000).toISOString();
  }
  return undefined;
}

/** Quantity and Time of apimachinery. */
const amount: Shape = { 1: { name: 'text', kind: 'text' } };
const time: Shape = { 1: { name: 'seconds', kind: 'whole' } };

/** Exact up to 2^53, as JSON's numbers are. */
function varint(reader: Reader): number {
  const { bytes } = reader;
  // Most are tags and lengths of one byte.
  const first = bytes[reader.at];
  if (first !== undefined && first < 128) {
    reader.at += 1;
    return first;
  }
  let value = 0;
  for (let scale = 1; scale < 2 ** 70; scale *= 128) {
    const byte = bytes[reader.at];
    if (byte === undefined) throw new RangeError('a number reaches over the end');
    reader.at += 1;
    value += (byte & 127) * scale;
    if (byte < 128) return value;
  }
  throw new RangeError('a number has no end');
}

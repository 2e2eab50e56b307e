// Protobuf: the form in which an API server tells long lists at less than half of the effort that JSON costs it and us. Only the
// fields that a shape names are read; all others, which are most of the bytes, are stepped over. What comes out are objects as
// JSON has them, with what is empty left out and times as numbers, so that whoever reads them need not know in which form they came.
// The encoding: https://protobuf.dev/programming-guides/encoding/
//
// Ten thousand objects are mostly alike, and most of the time goes into making what was made before: so a word that many have in
// common is made once, and so is a message that is the same byte for byte.

/**
 * The kind of a field's value. A time and an amount are messages of Kubernetes; a time is read as milliseconds since 1970, an amount as
 * the text that JSON has. A word is a text that is likely to come again. Bytes are not copied.
 */
type Kind = 'bytes' | 'text' | 'word' | 'whole' | 'truth' | 'time' | 'amount' | { readonly [number: number]: Field };

/**
 * A field of a message: one value, a list of them, or a map from texts to them. Of a map with `only` no other keys are read. What
 * `isShared` is read once for all messages that are equal; nobody may change it.
 */
type Field =
  | { readonly name: string; readonly kind: Kind; readonly is?: 'list'; readonly isShared?: true }
  | { readonly name: string; readonly kind: 'text' | 'amount'; readonly is: 'map'; readonly only?: readonly string[] };

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
    const laid = tag & 7;
    if (laid === layout.sized) {
      const size = varint(reader);
      const last = reader.at + size;
      if (last > end) throw new RangeError(`a field of ${size} bytes reaches over the end of its message`);
      const field = shape[tag >>> 3];
      if (field !== undefined) put(found, field, reader, last);
      reader.at = last;
    } else if (laid === layout.varint) {
      const value = varint(reader);
      const field = shape[tag >>> 3];
      if (field?.kind === 'whole') found[field.name] = value;
      else if (field?.kind === 'truth') found[field.name] = value !== 0;
    } else if (laid === layout.eight) reader.at += 8;
    else if (laid === layout.four) reader.at += 4;
    else throw new RangeError(`no value is laid down as ${laid}`);
  }
  return found;
}

/** The messages that the entries of a map are. */
const entryShapes: Readonly<Record<'text' | 'amount', Shape>> = {
  text: { 1: { name: 'key', kind: 'word' }, 2: { name: 'value', kind: 'text' } },
  amount: { 1: { name: 'key', kind: 'word' }, 2: { name: 'value', kind: 'amount' } },
};
/** The key alone. */
const keyShape: Shape = { 1: { name: 'key', kind: 'word' } };

function put(found: Record<string, unknown>, field: Field, reader: Reader, last: number): void {
  const { name } = field;
  if (field.is === 'map') {
    if (field.only !== undefined) {
      const begin = reader.at;
      const { key = '' } = read(reader, last, keyShape) as { readonly key?: string };
      if (!field.only.includes(key)) return;
      reader.at = begin;
    }
    const { key = '', value = '' } = read(reader, last, entryShapes[field.kind]) as {
      readonly key?: string;
      readonly value?: string;
    };
    const map = (found[name] ??= Object.create(null)) as Record<string, string>;
    map[key] = value;
    return;
  }
  const value = field.isShared === true ? sharedValue(reader, last, field) : valueOf(reader, last, field.kind);
  if (field.is === 'list') ((found[name] ??= []) as unknown[]).push(value);
  else if (value !== undefined) found[name] = value;
}

/** Undefined for what is empty. */
function valueOf(reader: Reader, last: number, kind: Kind): unknown {
  if (typeof kind === 'object') return read(reader, last, kind);
  if (kind === 'word') return reader.at === last ? undefined : wordAt(reader.bytes, reader.at, last);
  if (kind === 'text') return reader.at === last ? undefined : reader.bytes.toString('utf8', reader.at, last);
  if (kind === 'bytes') return reader.bytes.subarray(reader.at, last);
  if (kind === 'amount') return read(reader, last, amount)['text'];
  if (kind === 'time') {
    const { seconds } = read(reader, last, time) as { readonly seconds?: number };
    return seconds === undefined ? undefined : seconds * 1_000;
  }
  return undefined;
}

/** Quantity and Time of apimachinery. */
const amount: Shape = { 1: { name: 'text', kind: 'word' } };
const time: Shape = { 1: { name: 'seconds', kind: 'whole' } };

// ------------------------------------------------------------------------------------------ what comes again

/** Something that was read, and the bytes that it was read from. */
interface Kept<T> {
  readonly bytes: Uint8Array;
  readonly value: T;
}

/** A word or a message has one place, which is the last one's that was there: what is rare pushes nothing out for long. */
const placesOf = 1024;
/** Longer values are unlikely to occur again. */
const keptMost = 256;

const words: (Kept<string> | undefined)[] = Array.from({ length: placesOf });

function wordAt(bytes: Buffer, from: number, to: number): string {
  if (to - from > keptMost) return bytes.toString('utf8', from, to);
  const place = placeOf(bytes, from, to);
  const kept = words[place];
  if (kept !== undefined && isAt(kept.bytes, bytes, from, to)) return kept.value;
  const value = bytes.toString('utf8', from, to);
  words[place] = { bytes: Uint8Array.prototype.slice.call(bytes, from, to), value };
  return value;
}

/** Of each shape its own: equal bytes mean another thing in another message. */
const shared = new WeakMap<object, (Kept<unknown> | undefined)[]>();

function sharedValue(reader: Reader, last: number, { kind }: Field): unknown {
  const { bytes, at } = reader;
  if (typeof kind !== 'object' || last - at > keptMost) return valueOf(reader, last, kind);
  let all = shared.get(kind);
  if (all === undefined) {
    all = Array.from({ length: placesOf });
    shared.set(kind, all);
  }
  const place = placeOf(bytes, at, last);
  const kept = all[place];
  if (kept !== undefined && isAt(kept.bytes, bytes, at, last)) return kept.value;
  const value = valueOf(reader, last, kind);
  all[place] = { bytes: Uint8Array.prototype.slice.call(bytes, at, last), value };
  return value;
}

/** A few bytes tell words apart well enough; whether it is the same word is looked at after that. */
function placeOf(bytes: Uint8Array, from: number, to: number): number {
  const size = to - from;
  const middle = bytes[from + (size >> 1)] ?? 0;
  const late = bytes[to - 2] ?? 0;
  return (size * 31 + (bytes[from] ?? 0) * 7 + middle * 131 + late * 17 + (bytes[to - 1] ?? 0)) & (placesOf - 1);
}

function isAt(word: Uint8Array, bytes: Uint8Array, from: number, to: number): boolean {
  if (word.length !== to - from) return false;
  for (let index = 0; index < word.length; index += 1) if (word[index] !== bytes[from + index]) return false;
  return true;
}

/** Exact up to 2^53, as JSON's numbers are. */
function varint(reader: Reader): number {
  const { bytes } = reader;
  // Most are tags and lengths of one byte.
  const first = bytes[reader.at];
  if (first !== undefined && first < 128) {
    reader.at += 1;
    return first;
  }
  return longVarint(reader);
}

function longVarint(reader: Reader): number {
  const { bytes } = reader;
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

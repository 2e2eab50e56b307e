/** The binary form of lists: what a shape names is read, all else is stepped over. Messages are laid down here by hand. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { jobShape, readListHead, readListItems } from '../../../src/backends/kubernetes/list-shapes.ts';
import { readMessage, type Shape } from '../../../src/backends/kubernetes/protobuf.ts';
import { readStatus } from '../../../src/backends/kubernetes/status.ts';

const bytes = (...parts: readonly (number | string | Uint8Array)[]): Buffer =>
  Buffer.concat(
    parts.map((part) =>
      typeof part === 'number' ? Buffer.from([part]) : typeof part === 'string' ? Buffer.from(part) : part,
    ),
  );

/** A number in groups of seven bits, the low ones first. */
function varint(value: number): Buffer {
  const groups: number[] = [];
  let left = value;
  for (; left >= 128; left = Math.floor(left / 128)) groups.push((left % 128) + 128);
  return Buffer.from([...groups, left]);
}

/** A field of that number: a whole number, or what has a length. */
function field(number: number, value: number | string | Uint8Array): Buffer {
  if (typeof value === 'number') return bytes(varint(number * 8), varint(value));
  const body = bytes(value);
  return bytes(varint(number * 8 + 2), varint(body.length), body);
}

suite('a message', () => {
  const shape: Shape = {
    1: { name: 'name', kind: 'text' },
    2: { name: 'count', kind: 'whole' },
    3: { name: 'isSet', kind: 'truth' },
    4: { name: 'at', kind: 'time' },
    5: { name: 'labels', kind: 'text', is: 'map' },
    6: { name: 'amounts', kind: 'amount', is: 'map' },
    7: { name: 'parts', kind: { 1: { name: 'name', kind: 'text' } }, is: 'list' },
    20: { name: 'far', kind: 'text' },
  };

  test('is read field by field', () => {
    const whole = bytes(
      field(1, 'häuser'),
      field(2, 300),
      field(3, 1),
      field(4, field(1, 1_763_773_200)),
      field(5, bytes(field(1, 'team'), field(2, 'vision'))),
      field(5, bytes(field(1, '__proto__'))),
      field(6, bytes(field(1, 'cpu'), field(2, field(1, '10m')))),
      field(7, field(1, 'one')),
      field(7, bytes()),
      field(20, 'away'),
    );
    const { labels, amounts, ...rest } = readMessage(whole, shape) as Record<string, object>;
    assert.deepEqual(rest, {
      name: 'häuser',
      count: 300,
      isSet: true,
      at: 1_763_773_200_000,
      parts: [{ name: 'one' }, {}],
      far: 'away',
    });
    assert.deepEqual(Object.entries(labels ?? {}), [
      ['team', 'vision'],
      ['__proto__', ''],
    ]);
    assert.deepEqual(Object.entries(amounts ?? {}), [['cpu', '10m']]);
  });

  test('is read over what nobody asked for, however it is laid down', () => {
    const unknown = bytes(
      field(9, 2 ** 40),
      field(300, 'x'.repeat(1_000)),
      bytes(varint(11 * 8 + 1), Buffer.alloc(8, 255)),
      bytes(varint(12 * 8 + 5), Buffer.alloc(4, 255)),
      // Less than 0 is ten bytes long.
      bytes(varint(13 * 8), Buffer.alloc(9, 255), 1),
    );
    assert.deepEqual(readMessage(bytes(unknown, field(1, 'here'), unknown), shape), { name: 'here' });
  });

  test('has no empty texts and no time that is not set, as in JSON', () => {
    assert.deepEqual(readMessage(bytes(field(1, ''), field(4, bytes())), shape), {});
  });

  test('gives of a map the keys that are asked for', () => {
    const labels: Shape = { 5: { name: 'labels', kind: 'text', is: 'map', only: ['team', 'queue'] } };
    const whole = bytes(
      field(5, bytes(field(1, 'uid'), field(2, 'x'.repeat(40)))),
      field(5, bytes(field(1, 'team'), field(2, 'vision'))),
      // Nobody has to lay the key down first.
      field(5, bytes(field(2, 'night'), field(1, 'queue'))),
      field(5, bytes()),
    );
    const read = readMessage(whole, labels) as { readonly labels: object };
    assert.deepEqual(Object.entries(read.labels), [
      ['team', 'vision'],
      ['queue', 'night'],
    ]);
    assert.deepEqual(readMessage(field(5, field(1, 'uid')), labels), {});
  });

  test('has each word as it is written, however many there are and whichever came before', () => {
    const named: Shape = { 1: { name: 'names', kind: 'word', is: 'list' } };
    // Many begin, end and go on alike, so that they are looked for in the same place.
    const names = Array.from({ length: 5_000 }, (_, index) => `job-${String(index).padStart(4, '0')}-0`);
    const others = ['häuser', 'hauser', 'x'.repeat(255), `${'x'.repeat(256)}y`, `${'x'.repeat(256)}z`, 'a', 'b'];
    for (const all of [[...names, ...others], names.toReversed(), others]) {
      assert.deepEqual(readMessage(bytes(...all.map((name) => field(1, name))), named), { names: all });
    }
  });

  test('that is shared is read once for all that are equal, of its own shape', () => {
    const part: Shape = { 1: { name: 'cpu', kind: 'text' } };
    const shape: Shape = {
      1: { name: 'parts', kind: part, is: 'list', isShared: true },
      2: { name: 'others', kind: { 1: { name: 'memory', kind: 'text' } }, is: 'list', isShared: true },
    };
    const amounts = ['10m', '20m', '10m'].map((amount) => field(1, field(1, amount)));
    const whole = bytes(...amounts, field(2, field(1, '10m')));
    const { parts, others } = readMessage(whole, shape) as Record<'parts' | 'others', object[]>;
    assert.deepEqual([parts, others], [[{ cpu: '10m' }, { cpu: '20m' }, { cpu: '10m' }], [{ memory: '10m' }]]);
    assert.equal(parts?.[0], parts?.[2]);
    // What it was read from may be written over, as buffers are.
    whole.fill(0);
    assert.deepEqual(readMessage(bytes(...amounts), shape), { parts });
  });

  test('that is cut or none is told', () => {
    const whole = field(1, 'whole');
    for (const size of [1, 2, whole.length - 1]) {
      assert.throws(() => readMessage(whole.subarray(0, size), shape), RangeError);
    }
    assert.throws(() => readMessage(bytes(varint(8 + 3)), shape), RangeError);
    assert.throws(() => readMessage(Buffer.alloc(30, 255), shape), RangeError);
  });
});

suite('a list of Jobs', () => {
  test('tells its version and continuation before its items are read', () => {
    const job = bytes(
      field(1, bytes(field(1, 'train'), field(5, 'uid-1'))),
      field(2, bytes(field(1, 4), field(10, 1))),
    );
    const list = bytes(field(1, bytes(field(2, '4711'), field(3, 'onward'))), field(2, job), field(2, job));
    const whole = bytes('k8s\0', field(1, field(1, 'batch/v1')), field(2, list));
    const { metadata, rest } = readListHead(whole);
    assert.deepEqual(metadata, { resourceVersion: '4711', continue: 'onward' });
    const read = { metadata: { name: 'train', uid: 'uid-1' }, spec: { parallelism: 4, suspend: true } };
    assert.deepEqual(readListItems(rest, jobShape), [read, read]);
    assert.throws(() => readListHead(Buffer.from('{"kind":"JobList"}')), RangeError);
  });
});

test('a refusal comes in the form of the list that it refuses', () => {
  const cause = bytes(field(1, 'FieldValueInvalid'), field(2, 'too long'), field(3, 'metadata.name'));
  const details = bytes(field(1, 'train'), field(3, 'jobs'), field(4, cause), field(5, 7));
  const refusal = bytes(
    field(1, field(3, 'onward')),
    field(2, 'Failure'),
    field(3, 'jobs.batch is forbidden'),
    field(4, 'Forbidden'),
    field(5, details),
    field(6, 403),
  );
  const whole = bytes('k8s\0', field(1, bytes(field(1, 'v1'), field(2, 'Status'))), field(2, refusal));
  const { code, reason, message, metadata, details: told } = readStatus(403, whole);
  assert.deepEqual([code, reason, message], [403, 'Forbidden', 'jobs.batch is forbidden']);
  assert.deepEqual(metadata, { continue: 'onward' });
  assert.deepEqual(told, {
    name: 'train',
    kind: 'jobs',
    causes: [{ reason: 'FieldValueInvalid', message: 'too long', field: 'metadata.name' }],
  });
  // What is cut on its way is still a refusal.
  assert.equal(readStatus(403, whole.subarray(0, 30)).code, 403);
});

/** Flavors: their JSON and its mistakes, their lookup, and GPUs. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { amountsKey, gpuCount, isExtended, sumAmounts } from '../../../src/app/cluster/amounts.ts';
import { findFlavor, parseFlavor, withLimits, type Flavor } from '../../../src/app/cluster/flavor.ts';
import { JobmanError } from '../../../src/app/errors.ts';

const small: Flavor = {
  name: 'small',
  description: null,
  resources: { requests: { cpu: '500m', memory: '1G' }, limits: null },
};

/** The message and the lines of the thrown error. */
function refusal(act: () => unknown): { readonly code: number; readonly message: string } {
  try {
    act();
  } catch (error) {
    assert.ok(error instanceof JobmanError, String(error));
    return { code: error.code, message: [error.message, ...error.lines].join('\n') };
  }
  assert.fail('it was taken');
}

test('the example of the documentation is a valid flavor', () => {
  const text = `{
    "name": "large-gpu",
    "resources": {
        "requests": {
            "cpu": "1000m",
            "memory": "1G",
            "nvidia.com/gpu": 1
        }
    }
}`;
  assert.deepEqual(parseFlavor(text, 'flavor'), {
    name: 'large-gpu',
    description: null,
    resources: { requests: { cpu: '1000m', memory: '1G', 'nvidia.com/gpu': '1' }, limits: null },
  });
});

suite('a flavor is refused, with the position, for', () => {
  const requests = '"requests": { "cpu": "1" }';
  const cases: readonly (readonly [what: string, text: string, message: RegExp])[] = [
    [
      'a comma behind the last limit, as in the older manual',
      '{\n  "name": "a",\n  "resources": {\n    "requests": { "cpu": "1" },\n    "limits": { "cpu": "1" },\n  }\n}',
      /^flavor:6:3: Expected double-quoted property name$/m,
    ],
    [
      'a comma that is missing',
      '{\n  "name": "no-gpu"\n  "resources": {}\n}',
      /^flavor:3:3: Expected ',' or '}' after property value$/m,
    ],
    ['no name', `{ "resources": { ${requests} } }`, /^flavor:1:1: a flavor needs a "name"$/m],
    ['an empty name', `{ "name": " ", "resources": { ${requests} } }`, /^flavor:1:11: "name" should be a text$/m],
    ['no resources', '{ "name": "a" }', /^flavor:1:1: a flavor needs "resources"$/m],
    ['no requests', '{ "name": "a", "resources": {} }', /^flavor:1:29: "resources" needs "requests"$/m],
    [
      'a slip of a key',
      `{ "nam": "a", "name": "a", "resources": { ${requests} } }`,
      /^flavor:1:3: a flavor has no "nam" \(did you mean "name"\?\)$/m,
    ],
    [
      'no amount',
      '{ "name": "a", "resources": { "requests": { "memory": "1GB" } } }',
      /^flavor:1:55: "requests.memory" should be an amount/m,
    ],
    [
      'no resource',
      '{ "name": "a", "resources": { "requests": { "gpu": 1 } } }',
      /^flavor:1:52: "requests.gpu" is not a Kubernetes resource; did you mean "nvidia.com\/gpu"\?$/m,
    ],
    [
      'half a GPU',
      '{ "name": "a", "resources": { "requests": { "nvidia.com/gpu": 0.5 } } }',
      /^flavor:1:63: "requests.nvidia.com\/gpu" should be a whole number, not 0.5$/m,
    ],
    [
      'less than nothing',
      '{ "name": "a", "resources": { "requests": { "cpu": "-1" } } }',
      /^flavor:1:52: "requests.cpu" should not be negative: -1$/m,
    ],
    [
      'a limit below the request',
      '{ "name": "a", "resources": { "requests": { "cpu": "2" }, "limits": { "cpu": "1500m" } } }',
      /^flavor:1:69: the limit of cpu \(1500m\) is less than its request \(2\)$/m,
    ],
    [
      'a GPU with another limit',
      '{ "name": "a", "resources": { "requests": { "amd.com/gpu": 1 }, "limits": { "amd.com/gpu": 2 } } }',
      /the limit of amd.com\/gpu \(2\) should equal its request \(1\)/,
    ],
    ['a list', '[]', /^flavor:1:1: a flavor is an object like/m],
  ];
  for (const [what, text, expected] of cases) {
    test(what, () => {
      const { code, message } = refusal(() => parseFlavor(text, 'flavor'));
      assert.equal(code, 2);
      assert.match(message, expected);
    });
  }

  test('several problems at once, in the order of the text', () => {
    const { message } = refusal(() =>
      parseFlavor('{ "resources": { "requests": { "cpu": "x", "gpu": 1 } } }', 'a.json'),
    );
    assert.deepEqual(
      message.split('\n').map((line) => line.replace(/: .*/, '')),
      ['a.json is not a flavor.', 'a.json:1:1', 'a.json:1:39', 'a.json:1:51'],
    );
  });
});

suite('the flavor of an argument', () => {
  const files: Readonly<Record<string, string>> = {
    './small': '{ "name": "from-file", "resources": { "requests": { "cpu": 1 } } }',
    small: 'not a flavor at all',
    'big.json': '{ "name": "big", "resources": { "requests": { "cpu": 8 } } }',
    'bad.json': '{ "name": "big", }',
  };
  const find = (input: string) => findFlavor(input, { predefined: [small], readFile: (path) => files[path] });

  test('is the one of that name, even if a file has the same name', () => assert.equal(find('small'), small));
  test('is a file with that path', () => assert.equal(find('./small').name, 'from-file'));
  test('is a file of another name', () => assert.equal(find('big.json').name, 'big'));
  test('is JSON in the argument', () => assert.equal(find(' {"name":"x","resources":{"requests":{}}}').name, 'x'));
  test('has the position of a mistake in a file', () => {
    assert.match(refusal(() => find('bad.json')).message, /bad\.json:1:18: Expected double-quoted property name/);
  });
  test('gets a suggestion if it does not exist', () => {
    const { code, message } = refusal(() => find('smal'));
    assert.equal(code, 3);
    assert.match(message, /There is no flavor smal, and no file of that name\. Did you mean small\?\nFlavors: small\./);
  });
});

test('only a resource that cannot be shared gets its request as its limit', () => {
  const requests = { cpu: '1', 'nvidia.com/gpu': '2', 'hugepages-2Mi': '4Mi' };
  assert.deepEqual(withLimits({ requests, limits: null }), {
    requests,
    limits: { 'nvidia.com/gpu': '2', 'hugepages-2Mi': '4Mi' },
  });
  assert.deepEqual(withLimits({ requests: { cpu: '1' }, limits: null }).limits, null);
  assert.deepEqual(withLimits({ requests, limits: { cpu: '2', 'nvidia.com/gpu': '2' } }).limits, {
    cpu: '2',
    'nvidia.com/gpu': '2',
    'hugepages-2Mi': '4Mi',
  });
});

test('every extended resource counts as a GPU, summed over kinds, or those in the settings', () => {
  const requests = { cpu: '8', memory: '1G', 'nvidia.com/gpu': '2', 'amd.com/gpu': '1', 'gpu.intel.com/i915': '1k' };
  assert.equal(gpuCount(requests, []), 1003);
  assert.equal(gpuCount(requests, ['nvidia.com/gpu', 'amd.com/gpu']), 3);
  assert.equal(gpuCount({ cpu: '8' }, []), 0);
  for (const plain of ['cpu', 'memory', 'hugepages-2Mi', 'kubernetes.io/batch', 'attachable.kubernetes.io/x']) {
    assert.equal(isExtended(plain), false, plain);
  }
});

test('equal requests have one key, whatever their notation', () => {
  const one = amountsKey({ cpu: '1', memory: '1024Mi', 'nvidia.com/gpu': '0' });
  assert.equal(one, amountsKey({ memory: '1Gi', cpu: '1000m' }));
  assert.notEqual(one, amountsKey({ memory: '1G', cpu: '1' }));
});

test('requests of several containers are summed', () => {
  assert.deepEqual(sumAmounts([{ cpu: '500m', memory: '1Gi' }, { cpu: '1500m' }, { 'nvidia.com/gpu': '1' }]), {
    cpu: '2',
    memory: '1Gi',
    'nvidia.com/gpu': '1',
  });
});

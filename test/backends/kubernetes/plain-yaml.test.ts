/** What the small reader of YAML reads means the same to a whole one; what is more it leaves to that. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { parse, stringify } from 'yaml';
import { readPlainYaml } from '../../../src/backends/kubernetes/plain-yaml.ts';

/** As kubectl writes one. */
const byKubectl = `apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: LS0tLS1CRUdJTi==
    server: https://127.0.0.1:6443
  name: kind-lab
- cluster:
    insecure-skip-tls-verify: true
    server: https://lab.example.com/k8s/clusters/c-m-x
  name: lab
contexts:
- context:
    cluster: kind-lab
    namespace: vision
    user: kind-lab
  name: kind-lab
current-context: kind-lab
kind: Config
preferences: {}
users:
- name: kind-lab
  user:
    client-certificate-data: LS0tLS1CRUdJTi==
    client-key-data: LS0tLS1CRUdJTi==
- name: gke
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1beta1
      args:
      - --cluster
      - "lab"
      command: gke-gcloud-auth-plugin
      env: null
      installHint: 'Install gke-gcloud-auth-plugin; it''s needed'
      provideClusterInfo: true
`;

/** As other tools and people write one. */
const byHand = `---
# mine
apiVersion: v1
kind: "Config"
current-context: lab
clusters:
  - name: lab
    cluster: {server: "https://10.0.0.1:6443", certificate-authority: /etc/lab/ca.crt}
contexts:
  - {name: lab, context: {cluster: lab, user: ada}}
users:
  -
    name: ada
    user:
      as-groups: [vision, "speech"]
      token: eyJhbGciOi.eyJzdWIi.x_y-z
`;

/** Parts of which texts are made that are nearly YAML, and often it. */
const parts = [
  'a',
  'b',
  'name',
  ': ',
  ':',
  '- ',
  '-',
  '\n',
  '\n  ',
  '\n    ',
  ' ',
  '  ',
  '{',
  '}',
  '[',
  ']',
  ', ',
  ',',
  '"',
  "'",
  '#',
  ' #',
  '&',
  '*',
  '!',
  '|',
  '>',
  '~',
  'null',
  'true',
  'No',
  '1',
  '0x1',
  '.5',
  '1e3',
  '\\',
  '\\n',
  'é',
  '\t',
  '---',
  '...',
  '?',
  '@',
  '%',
  '/x',
  '=',
  '\r',
  '--x',
  'x',
  '\u00a0',
  '\u2028',
];

function judge(text: string): boolean {
  const read = readPlainYaml(text);
  if (read === undefined) return false;
  assert.deepEqual(read, parse(text), JSON.stringify(text));
  return true;
}

suite('plain YAML', () => {
  test('is what kubectl writes, and much of what people do', () => {
    for (const text of [byKubectl, byHand, byKubectl.replaceAll('\n', '\r\n')]) assert.ok(judge(text), text);
  });

  test('is read as a whole YAML library reads it, or not at all', () => {
    const value = fc.letrec((tie) => ({
      any: fc.oneof(
        { maxDepth: 4 },
        fc.string({ maxLength: 12 }),
        fc.constantFrom('https://10.0.0.1:6443', 'no', '~', '012', '1:20', '- x', 'x: y', 'x #y', '/a/b', '', 'LS0t=='),
        fc.boolean(),
        fc.constant(null),
        fc.array(tie('any'), { maxLength: 3 }),
        fc.dictionary(fc.constantFrom('name', 'user', 'as-groups', 'a.b', 'true', 'null', '1', 'x y'), tie('any')),
      ),
    })).any;
    let isRead = 0;
    fc.assert(
      fc.property(
        fc.dictionary(fc.constantFrom('users', 'kind', 'x'), value),
        fc.boolean(),
        fc.nat(400),
        fc.string(),
        (object, flow, at, other) => {
          const text = stringify(
            object,
            flow ? { collectionStyle: 'flow', lineWidth: 0 } : { indentSeq: at % 2 === 0 },
          );
          if (judge(text)) isRead += 1;
          // A letter that stands somewhere else by mistake.
          const spoiled = text.slice(0, at) + other + text.slice(at + 1);
          let isYaml = true;
          try {
            parse(spoiled, { logLevel: 'silent' });
          } catch {
            isYaml = false;
          }
          if (isYaml) judge(spoiled);
          else assert.equal(readPlainYaml(spoiled), undefined, JSON.stringify(spoiled));
        },
      ),
      { numRuns: 500 },
    );
    assert.ok(isRead > 50, `only ${isRead} were read`);
  });

  test('made of any parts is read as the library does, or not at all', () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...parts), { maxLength: 14 }), (all) => {
        const text = all.join('');
        let isYaml = true;
        try {
          parse(text, { logLevel: 'silent' });
        } catch {
          isYaml = false;
        }
        if (isYaml) judge(text);
        else assert.equal(readPlainYaml(text), undefined, JSON.stringify(text));
      }),
      { numRuns: 5_000 },
    );
  });
});

// The section `notify` of a manifest.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assertEach, clusterOf, problemsOf, specOf } from './fake-files.ts';

const job = (notify: string): string => `local: {}\ncommand: {run: ls}\nnotify:\n${notify}`;
const channels = ['slack', 'pager', 'mail'];

test('events and recipients are read; a single value is a list, and an address needs no prefix', () => {
  assert.deepEqual(
    specOf(job('  on: [failed, preempted, failed]\n  to: [mail:ada@example.com, slack]\n')).spec.notify,
    {
      on: ['failed', 'preempted'],
      to: ['mail:ada@example.com', 'slack'],
    },
  );
  assert.deepEqual(specOf(job('  on: failed\n  to: ada@example.com\n')).spec.notify, {
    on: ['failed'],
    to: ['mail:ada@example.com'],
  });
  assert.deepEqual(specOf(job('  on: []\n')).spec.notify, { on: [] });
  assert.equal(specOf('local: {}\ncommand: {run: ls}\n').spec.notify, undefined);
});

test('a job in a cluster has the same section', () => {
  const { cluster } = clusterOf('kubernetes: {image: alpine}\nnotify: {on: failed, to: slack}\n');
  assert.deepEqual(cluster.notify, { on: ['failed'], to: ['slack'] });
});

test('each mistake has its position and the way to correct it', () => {
  const lines = (notify: string) => problemsOf(job(notify), { channels }).join('\n');
  assertEach(lines, {
    '  on: [failed, fail]\n': /^cfg\.yaml:4:16 notify\.on\[1\]: "fail" is not one of .* \(did you mean "failed"\?\)$/,
    '  on: [END]\n': /4:8 notify\.on\[0\]: "END" is not one of .* \(did you mean "succeeded"\?\)/,
    '  on: [preemted]\n': /did you mean "preempted"\?/,
    '  when: [failed]\n': /^cfg\.yaml:4:3: Unknown key "when" in notify/,
    '  to: [slcak]\n':
      /^cfg\.yaml:4:8 notify\.to\[0\]: there is no channel "slcak" in the settings \(notify\.channels: slack, pager\); did you mean slack\?$/,
    '  to: ["mail:ada@example.com, eve@example.com"]\n': /4:8 notify\.to\[0\]: .* is not one mail address/,
    '  to: ["mail:ada@example.com\\nBcc: eve@example.com"]\n':
      /4:8 notify\.to\[0\]: must be one line without control characters/,
    '  to: ["slack\\u202e"]\n': /4:8 notify\.to\[0\]: must be one line without control characters/,
    '  to: ["mail: ada@example.com"]\n': /is not one mail address.*\(did you mean "mail:ada@example\.com"\?\)/,
    '  to: [https://hooks.example.com/secret]\n': /is neither mail:ADDRESS nor the name of a channel/,
    '  to: {mail: ada@example.com}\n': /^cfg\.yaml:4:7 notify\.to/,
  });
  assert.deepEqual(problemsOf(`${job('  to: [slack]\n')}`, { channels: ['pager'] }), [
    'cfg.yaml:4:8 notify.to[0]: there is no channel "slack" in the settings (notify.channels: pager)',
  ]);
  assert.match(
    problemsOf(job('  to: [ada@example.com]\n'), { channels: [] })[0] ?? '',
    /needs a mail server; set notify\.smtp/,
  );
});

test('the key of an older program names its successor', () => {
  const [line = ''] = problemsOf('brevo_email: ada@example.com\nlocal: {}\ncommand: {run: ls}\n');
  assert.match(line, /^cfg\.yaml:1:1 brevo_email: is not supported; write notify: \{to: mail:ADDRESS\} instead$/);
});

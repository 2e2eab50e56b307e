/** A spec that a client sends is refused for what no manifest could have given, with the manifest's own messages. */
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { disk } from '../../src/cli/disk.ts';
import { hostNamesOf, type CommandSpec, type JobSpec } from '../../src/core/model/spec.ts';
import { minute } from '../../src/core/model/time.ts';
import { presets } from '../../src/core/policy/presets.ts';
import { loadManifest } from '../../src/manifest/parse.ts';
import { specProblems } from '../../src/manifest/spec-problems.ts';
import { localSpec, tpuSpec } from '../support/builders.ts';
import { root } from '../support/root.ts';

const withCommand = (changes: Partial<CommandSpec>, spec = localSpec()): JobSpec => ({
  ...spec,
  command: { ...spec.command, ...changes },
});
const onHosts = (...hosts: readonly string[]): JobSpec =>
  localSpec({ capacity: { kind: 'hosts', ownership: 'persistent', hosts } });
const { limits, recovery } = localSpec();

const impossible: readonly (readonly [JobSpec, RegExp])[] = [
  [localSpec({ name: 'a\u001b[2J' }), /^spec job\.name: must be one line without control characters$/],
  [localSpec({ name: '../a' }), /^spec job\.name: "\.\.\/a" is not a valid job name/],
  [localSpec({ name: '42' }), /is not a valid job name/],
  [localSpec({ tags: ['a\nb'] }), /^spec job\.tags\[0\]: must be one line/],
  [localSpec({ stop: { signal: 'TERM', graceMs: -1 } }), /^spec job\.stop_grace: "-1ms" is not a duration/],
  [localSpec({ stop: { signal: 'BOOM', graceMs: 1 } }), /^spec job\.stop_signal: "BOOM" is not one of TERM/],
  [localSpec({ limits: { ...limits, failedCallTimeoutMs: -1 } }), /^spec job\.silence_timeout: /],
  [localSpec({ limits: { ...limits, setupTries: 0 } }), /^spec setup\.tries: must be at least 1/],
  [localSpec({ limits: { ...limits, budgetUsd: -5 } }), /^spec job\.budget: /],
  [localSpec({ recovery: { ...recovery, delayMs: -5 } }), /^spec recovery\.delay: /],
  [localSpec({ notify: { to: ['mail:ada'] } }), /^spec notify\.to\[0\]: /],
  [onHosts(), /^spec hosts: is empty/],
  [onHosts('gpu9'), /^spec hosts\[0\]: there is no host "gpu9"/],
  [onHosts('gpu1', 'gpu1'), /^spec hosts\[1\]: names gpu1 twice/],
  [tpuSpec({}, { accelerator: 'v4-8;reboot' }), /^spec tpu\.accelerator: "v4-8;reboot" is not a TPU type/],
  [tpuSpec({}, { zone: '../us' }), /^spec tpu\.zone: "\.\.\/us" is not a zone/],
  [tpuSpec({}, { project: 'a/b' }), /^spec tpu\.project: /],
  [tpuSpec({}, { name: 'a b' }), /^spec tpu\.name: /],
  [tpuSpec({}, { remoteUser: '-oProxyCommand=x' }), /^spec job\.remote_user: /],
  [tpuSpec({}, { privateKey: { kind: 'localFile', path: '/root/.ssh/id' } }), /a file of the controller's machine/],
  [withCommand({ workers: [7] }), /^spec command\.workers\[0\]: there is no worker 7/],
  [withCommand({ script: 'a\0b' }), /^spec command\.run: contains a NUL byte/],
  [withCommand({ env: { 'A B': '1' } }), /^spec job\.env\.A B: is not a valid name of an environment variable/],
  [withCommand({ env: { JOBMAN_HOME: '/x' } }), /names that begin with JOBMAN_ are reserved/],
  [withCommand({ checkpointDir: 'runs' }), /^spec job\.checkpoint_dir: runs is a relative path/],
  [withCommand({ checkpointDir: '~/../x' }, tpuSpec()), /^spec job\.checkpoint_dir: .* outside the login folder/],
  [withCommand({ secrets: { KEY: { kind: 'job', secret: '../../a' } } }), /^spec job\.secrets/],
  [withCommand({ secrets: { KEY: { kind: 'localFile', path: 'key.pem' } } }), /key\.pem is a file of the controller/],
];

test('each value that no manifest could give is one problem', () => {
  for (const [spec, expected] of impossible) {
    const problems = specProblems(spec, ['localhost', 'gpu1']);
    assert.equal(problems.filter((problem) => expected.test(problem)).length, 1, `${expected}: ${problems.join('; ')}`);
    for (const problem of problems) assert.doesNotMatch(problem, /\p{Cc}/u);
  }
});

test('all problems are reported at once', () => {
  const spec = { ...onHosts('gpu9'), name: 'a b', stop: { signal: 'TERM', graceMs: -1 } };
  assert.equal(specProblems(spec, ['localhost']).length, 3);
  const reported = localSpec({ notify: { to: ['team', 'mail:ada@example.com'] } });
  assert.deepEqual(specProblems(reported, ['localhost'], ['team', 'mail']), []);
  assert.match(specProblems(reported, ['localhost'], []).join('\n'), /no channel "team" in .*\n.*needs a mail server/);
});

test('what a manifest or a lab gives is no problem: every example, rules of presets, texts that look like references', () => {
  const configs = join(root, 'configs');
  const context = { cwd: configs, env: {}, home: '/home/ada', files: disk, project: null, purpose: 'check' } as const;
  const names = readdirSync(configs, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.yaml'));
  for (const file of names) {
    const loaded = loadManifest({ ...context, file });
    if (!('spec' in loaded)) continue;
    const problems = specProblems(loaded.spec, hostNamesOf(loaded.spec.capacity));
    // Only the check of an imported job names files of this machine.
    assert.deepEqual(
      problems.filter((problem) => !problem.includes("the controller's machine")),
      [],
      file,
    );
  }
  const customPatterns = ['NCCL*timeout'];
  const own = { reason: 'command_failed', evidence: 'NCCL*timeout', answer: { then: 'resume', on: 'same' } } as const;
  for (const rules of Object.values(presets))
    assert.deepEqual(
      specProblems(tpuSpec({ recovery: { ...recovery, customPatterns, rules: [own, ...rules] } }), []),
      [],
    );
  const text = { A: '${B}', C: '', D: 'a\nb' };
  const changes = { env: text, script: 'echo ${job.name} ???' };
  assert.deepEqual(specProblems(withCommand(changes, tpuSpec({}, { validForMs: minute })), []), []);
});

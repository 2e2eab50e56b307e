/** The value of a key for a path must be a path, and a command must have something to run. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assertRefused, local, problemsOf, specOf, tpu } from './fake-files.ts';

const files = { '/work/42': 'x', '/work/a.txt': 'x' };

test('an unquoted number or boolean is not a path', () => {
  for (const [key, text] of [
    ['job.checkpoint_dir', tpu('job: {checkpoint_dir: 12}\n')],
    ['job.workdir', tpu('job: {workdir: true}\n')],
    ['job.files[0]', tpu('job: {files: [42]}\n')],
    ['command.workdir', tpu('', 'run: ls, workdir: 3')],
    ['local.workdir', 'local: {workdir: 1}\ncommand: {run: ls}\n'],
    ['ssh.private_key', tpu('ssh: {private_key: 1}\n')],
    ['ssh.identities[0].private_key', tpu('ssh: {identities: [{private_key: 7}]}\n')],
    ['gcsfuse.mount_path', tpu('gcsfuse: {bucket_name: abc, mount_path: 9}\n')],
    ['gcsfuse.cache.dir', tpu('gcsfuse: {bucket_name: abc, mount_path: ~/b, cache: {dir: 1.5}}\n')],
    ['docker.workdir', tpu('docker: {image: i, workdir: 8}\n')],
    ['docker.mount_dirs[0]', tpu('docker: {image: i, mount_dirs: [8]}\n')],
    ['venv.path', tpu('venv: {path: 8}\n')],
    ['venv.requirements_file', tpu('venv: {requirements_file: off}\n').replace('off', 'false')],
    ['conda.yaml_file', tpu('conda: {name: a, yaml_file: 8}\n')],
    ['tpu.startup_script', tpu().replace('zone:', 'startup_script: 0x10, zone:')],
  ] as const) {
    const lines = problemsOf(text, { files });
    assert.equal(lines.length, 1, `${key}: ${lines.join('\n')}`);
    assert.match(lines[0] ?? '', /: must be a .*, not (?:the number )?\S+; put it in quotes if it is one$/, key);
    assert.ok(lines[0]?.includes(` ${key}: `) === true, lines.join());
  }
  assert.equal(specOf(tpu('job: {files: ["42"]}\n'), { files }).spec.steps[0]?.name, 'files');
});

test('a mount of a container is an absolute path', () => {
  const mount = (written: string): string => tpu(`docker: {image: i, mount_dirs: [${JSON.stringify(written)}]}\n`);
  for (const wrong of ['home/zephyr', './data', 'data:/inside', '~zephyr', '/a:b']) {
    assert.match(problemsOf(mount(wrong)).join(), /docker\.mount_dirs\[0\]: .* is not a mount; write \/path/, wrong);
  }
  assertRefused(mount('home/zephyr'), /did you mean "\/home\/zephyr"\?/);
  for (const right of ['~', '~/b', '/', '/dev', '/a:/b', '~/a:/b:ro']) specOf(mount(right));
});

test('a bucket is not mounted over everything', () => {
  const mount = (written: string): string => tpu(`gcsfuse: {bucket_name: abc, mount_path: "${written}"}\n`);
  for (const wrong of ['/', '//', '~', '~/', '.', './']) {
    assert.match(problemsOf(mount(wrong)).join(), /gcsfuse\.mount_path: .* would hide all other files/, wrong);
  }
  for (const right of ['~/b', '/mnt/b', 'b', './b']) specOf(mount(right));
});

test('a command with nothing to run is refused', () => {
  for (const empty of ['', ' ', '\n\t\n']) {
    assertRefused(local(empty), /command\.run: is empty, so there is nothing to run$/);
  }
  assertRefused(tpu('', 'cmd: ""'), /command\.cmd: is empty/);
  assertRefused(`vars: {a: ""}\n${local('${vars.a}')}`, /command\.run: is empty/);
});

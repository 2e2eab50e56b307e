/** Completion in real shells: the test types, presses the tab key, and runs the completed line. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { promisify } from 'node:util';
import { jobmanCommand } from '../support/jobman.ts';
import { findProgram, requireReal } from '../support/real.ts';
import { root } from '../support/root.ts';
import { openJobWorld, type JobWorld } from '../support/jobs.ts';

interface Shell {
  readonly name: string;
  /** Starts the shell without the user's configuration. */
  readonly command: readonly string[];
  readonly prompt: string;
  readonly load: string;
}

const shells: readonly Shell[] = [
  {
    name: 'bash',
    command: ['bash', '--norc', '--noprofile', '-i'],
    prompt: "PS1='rea''dy> '",
    load: 'source <(jobman completion bash); source <(tpu completion bash)',
  },
  {
    name: 'zsh',
    command: ['zsh', '-f', '-i'],
    prompt: "autoload -Uz compinit && compinit -u -D; PROMPT='rea''dy> '",
    load: 'source <(jobman completion zsh); source <(tpu completion zsh)',
  },
  {
    name: 'fish',
    command: ['fish', '--no-config', '-i'],
    prompt: "function fish_prompt; echo -n 'rea''dy> '; end",
    load: 'jobman completion fish | source; tpu completion fish | source',
  },
];

/** The text before the tab key, and the command that the shell must run then. */
const cases: readonly (readonly [typed: string, run: string])[] = [
  ['jobman canc\t', '<cancel>'],
  ['jobman show 0\t', '<show><000001>'],
  ['jobman show an-od\t', '<show><an-odd-name>'],
  ['jobman create --dry\t', '<create><--dry-run>'],
  ['jobman controller unin\t', '<controller><uninstall>'],
  ['jobman emulator pree\t', '<emulator><preempt>'],
  ['jobman emulator preempt 0\t', '<emulator><preempt><000001>'],
  ['jobman list --phase prov\t', '<list><--phase><provisioning>'],
  ['jobman validate manif\t', '<validate><manifest.yaml>'],
  ['jobman tpu add-ta\t', '<tpu><add-tag>'],
  ['jobman tpu check ad\t', '<tpu><check><ada>'],
  ['jobman tpu run rule=resu\t', '<tpu><run><rule=resume>'],
  ['tpu add-ta\t', '<add-tag>'],
  ['tpu check ad\t', '<check><ada>'],
  ['tpu describe v2-\t', '<describe><v2-32-1>'],
  ['tpu run ada mom\t', '<run><ada><mom=>'],
  ['tpu run rule=resu\t', '<run><rule=resume>'],
  ['tpu run --log\t', '<run><--log-stage>'],
  ['tpu set-settings monitor_le\t', '<set-settings><monitor_length>'],
];

/**
 * Fake `jobman` and `tpu` on PATH: they answer the shell's completion requests for real, and otherwise print their
 * arguments.
 */
function putOnPath(world: JobWorld): string {
  const folder = join(world.folder, 'bin');
  mkdirSync(folder);
  const real = jobmanCommand.map((arg) => `'${arg}'`).join(' ');
  for (const [name, line] of [
    ['jobman', real],
    ['tpu', `${real} tpu`],
  ] as const) {
    const path = join(folder, name);
    writeFileSync(
      path,
      `#!/bin/sh\ncase $1 in __complete|completion) exec ${line} "$@";; esac\nprintf 'ran'; printf '<%s>' "$@"; echo\n`,
    );
    chmodSync(path, 0o755);
  }
  return folder;
}

async function type(world: JobWorld, path: string, shell: Shell, steps: readonly (readonly [string, string])[]) {
  const argv = [join(root, 'test/real/typed-input.py'), JSON.stringify(steps), ...shell.command];
  const env = {
    ...world.env,
    PATH: `${path}${delimiter}${world.env['PATH'] ?? ''}`,
    TERM: 'xterm',
    XDG_RUNTIME_DIR: world.folder,
  };
  const { stdout } = await promisify(execFile)('python3', argv, { env, cwd: world.folder, timeout: 120_000 });
  return JSON.parse(stdout) as { readonly done: boolean; readonly screen: string };
}

function hasAll(t: TestContext, ...names: readonly string[]): boolean {
  return names.every((name) => requireReal(t, name, findProgram(name)));
}

for (const shell of shells) {
  test(`${shell.name} completes commands, flags and their values, ids and names of jobs, verbs and files`, async (t) => {
    if (!hasAll(t, 'python3', shell.name)) return;
    const world = openJobWorld(t);
    const manifest = join(world.folder, 'manifest.yaml');
    writeFileSync(manifest, 'job:\n  name: an-odd-name\nlocal: {}\ncommand:\n  run: "true"\n');
    assert.equal((await world.jobman(['create', manifest])).code, 0);
    assert.equal((await world.jobman(['wait', '1', '--timeout', '30s'])).code, 0);
    for (const line of [
      'add-user ada',
      '-a mom config.momentum ada',
      '-ta v2-32-1 lab-tpu-v2-32-1 zone=us-central1-a',
    ]) {
      assert.equal((await world.jobman(['tpu', ...line.split(' ')])).code, 0);
    }

    const path = putOnPath(world);
    const steps: (readonly [string, string])[] = [
      [`${shell.prompt}\r`, 'ready> '],
      [`${shell.load}\r`, 'ready> '],
    ];
    for (const [typed, run] of cases) {
      // Wait for the completion before sending the line.
      const placeholder = /<([^<>]*)>$/.exec(run)?.[1] ?? '';
      const begun = typed.trim().split(' ').at(-1) ?? '';
      steps.push([typed, placeholder.slice(begun.length)], ['\r', `ran${run}\\s[\\s\\S]*ready> `]);
    }
    const { done, screen } = await type(world, path, shell, steps);
    assert.ok(done, screen);
  });
}

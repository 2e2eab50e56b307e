/**
 * The walkthroughs of the README and of docs/tpu.md: their commands in order, in a fresh home, on the real TPU
 * emulator. The output must match the page; test/docs/compare-output.ts lists the permitted differences.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { cpSync, mkdirSync, writeFileSync } from 'node:fs';
import { userInfo } from 'node:os';
import { delimiter, join } from 'node:path';
import { test } from 'node:test';
import { createTerminalScreen } from '../cli/support/terminal-screen.ts';
import { readDocument, type CodeBlock } from '../docs/documents.ts';
import { asDocumented, firstMismatch } from '../docs/compare-output.ts';
import { eventually } from '../support/eventually.ts';
import { jobmanCommand } from '../support/jobman.ts';
import { findProgram, requireReal } from '../support/real.ts';
import { root } from '../support/root.ts';
import { openWorld, type World } from '../support/world.ts';

/** A command of a document and its documented output. */
interface Step {
  readonly position: string;
  readonly command: string;
  readonly expected: readonly string[];
}

/** The commands of all console blocks that are not skipped. */
function stepsOf(blocks: readonly CodeBlock[]): readonly Step[] {
  return blocks
    .filter(({ language, skipReason }) => language === 'console' && skipReason === null)
    .flatMap(({ document: path, line, text }) =>
      text
        .split(/^\$ /m)
        .slice(1)
        .map((part) => {
          const [command = '', ...expected] = part.split('\n');
          return { position: `${path}:${line}`, command, expected };
        }),
    );
}

/** A shell in a folder that holds `configs/`, with `jobman` and `tpu` on its path. */
interface Shell {
  readonly run: (command: string) => Promise<string>;
  /** The same on a terminal; returns the final screen. */
  readonly runOnTerminal: (command: string) => Promise<string>;
}

function openShell(world: World): Shell {
  const bin = join(world.folder, 'bin');
  mkdirSync(bin);
  const commandLine = jobmanCommand.map((arg) => `'${arg}'`).join(' ');
  writeFileSync(join(bin, 'jobman'), `#!/bin/sh\nexec ${commandLine} "$@"\n`, { mode: 0o755 });
  writeFileSync(join(bin, 'tpu'), `#!/bin/sh\nexec ${commandLine} tpu "$@"\n`, { mode: 0o755 });
  // The example writes its checkpoints next to itself.
  cpSync(join(root, 'configs'), join(world.folder, 'configs'), { recursive: true });
  const env = { ...world.env, PATH: `${bin}${delimiter}${world.env['PATH']}`, TERM: 'xterm', NO_COLOR: '1' };

  const start = (argv: readonly [string, ...string[]]): Promise<string> =>
    new Promise((resolve, reject) => {
      const [file, ...rest] = argv;
      const child = spawn(file, rest, { cwd: world.folder, env, stdio: ['ignore', 'pipe', 'pipe'] });
      let output = '';
      for (const stream of [child.stdout, child.stderr]) {
        stream.setEncoding('utf8').on('data', (text: string) => (output += text));
      }
      child.on('error', reject);
      child.on('close', () => resolve(output));
    });
  return {
    run: (command) => start(['sh', '-c', `exec 2>&1; ${command}`]),
    async runOnTerminal(command) {
      // script(1) gives a program a terminal and copies its output.
      const written = await start(['script', '-qec', `stty cols 120 rows 50; ${command}`, '/dev/null']);
      const glass = createTerminalScreen();
      glass.write(written);
      return glass.rows().join('\n');
    },
  };
}

/** Waits for the state that a reader would wait for before the command, at the pace of the README. */
async function beReadyFor(command: string, { run }: Shell): Promise<void> {
  const waits: readonly (readonly [RegExp, string, RegExp])[] = [
    // Preempt only after there are checkpoints.
    [/^jobman emulator preempt 2$/, 'jobman logs 2 --worker 0', /^step +(4|5|6|7|8|9)\d\//m],
    [/^jobman why 2$/, 'jobman list --name iris', /recovering/],
    // Stop a job while it runs, and resume it after it has stopped.
    [/^jobman stop second$/, 'jobman logs second --worker 0', /^step +[4-9]\d\//m],
    [/^jobman resume second$/, 'jobman list --name second', /stopped, holds v4-16/],
    [/^jobman cancel second$/, 'jobman list --name second', /running/],
    [/^jobman delete second$/, 'jobman list --name second', /cancelled/],
    [/^jobman emulator preempt lab-tpu/, 'jobman logs 2', /epoch [5-9] of 90/],
  ];
  for (const [pattern, probe, sign] of waits) {
    if (!pattern.test(command)) continue;
    const came = await eventually(async () => sign.test(await run(probe)), { withinMs: 60_000, everyMs: 200 });
    assert.ok(came, `before \`${command}\`: \`${probe}\` never showed ${String(sign)}, but\n${await run(probe)}`);
  }
}

/** Speeds up the runs that are not interrupted. The others need time for their interruption. */
function atTestPace(command: string): string {
  return command.includes('--follow') ? `${command} --set command.env.IRIS_PACE=0.01` : command;
}

/** Runs every command of a page and compares; `shown` returns what a reader would see. */
async function play(
  page: string,
  least: number,
  world: World,
  shell: Shell,
  shown: (command: string) => Promise<string>,
) {
  const machine = { user: userInfo().username, home: world.home };
  const steps = stepsOf(readDocument(page).blocks);
  assert.ok(steps.length >= least, `${page} has a walk.`);
  for (const { position, command, expected } of steps) {
    await beReadyFor(command, shell);
    const lines = asDocumented(await shown(command), machine);
    const misfit = firstMismatch(expected, lines);
    assert.equal(
      misfit,
      undefined,
      `${position}: \`${command}\` does not print \`${misfit}\`, but\n${lines.join('\n')}`,
    );
  }
}

test('the walkthrough of the README prints the documented output', async (t) => {
  if (!requireReal(t, 'script(1)', findProgram('script'))) return;
  if (!requireReal(t, 'python3', findProgram('python3'))) return;
  const world = openWorld(t, { patienceMs: 10_000 });
  const shell = openShell(world);
  world.atEnd(async () => void (await shell.run('jobman controller stop; jobman emulator stop')));
  // A worker's home is a folder of the TPU emulator.
  const homeOfWorker = new RegExp(`${world.home}/emulator/hosts/[^/]+/\\d+/home/[^/\\s]+`, 'g');
  await play('README.md', 12, world, shell, async (command) => {
    // On a terminal, the progress of a wait disappears at its end. Elsewhere its lines stay.
    const isWatched = command.includes('--follow') || command.startsWith('jobman wait');
    return (await (isWatched ? shell.runOnTerminal : shell.run)(atTestPace(command))).replaceAll(homeOfWorker, '~');
  });
});

test('the walkthrough of docs/tpu.md prints the documented output', async (t) => {
  // A tmux server ends with its last window. Without tmux the walkthrough is the same.
  const world = openWorld(t, { patienceMs: 10_000 });
  const shell = openShell({ ...world, env: { ...world.env, TMUX_TMPDIR: world.folder } });
  world.atEnd(async () => void (await shell.run('jobman controller stop; jobman emulator stop; tmux kill-server')));
  // The page uses the folder of the walkthrough as the home.
  const asHome = (text: string): string => text.replaceAll(`${world.folder}/configs`, '~/configs');
  await play('docs/tpu.md', 30, world, shell, async (command) => asHome(await shell.run(command)));
});

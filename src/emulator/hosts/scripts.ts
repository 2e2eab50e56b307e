/**
 * The scripts that a node's metadata gives its machines: `startup-script` runs as root at every boot of every worker, also
 * after a reset or maintenance, and READY does not wait for it; `shutdown-script` has the time of a soft power-off
 * (facts/cloud-tpu.md sections 3.2 and 8).
 */
import { spawn } from 'node:child_process';
import { closeSync, openSync, writeFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import type { Machine } from './machine.ts';

export interface ScriptFacts {
  readonly machine: Machine;
  /** The host's own folder: the script lies there under its name, and its output beside it as `<name>.log`. */
  readonly folder: string;
  readonly name: 'startup-script' | 'shutdown-script';
  readonly text: string;
  readonly env: Readonly<Record<string, string>>;
  /** The first line of what this run leaves in the log. */
  readonly heading: string;
}

/** Runs it and resolves when it has ended, in whatever way: what it printed, and its code, are in the log. */
export function runScript(facts: ScriptFacts): Promise<void> {
  const path = join(facts.folder, facts.name);
  const log = `${path}.log`;
  // Google's agent runs the file itself, so its first line says by what; without one it is the shell's.
  writeFileSync(path, facts.text, { mode: 0o700 });
  const output = openSync(log, 'a', 0o644);
  writeSync(output, `${facts.heading}\n`);
  const run = `cd /; /bin/bash -c '"$0"' "$0"; code=$?; echo "${facts.name} exit status $code"; exit "$code"`;
  const [command = '', ...words] = facts.machine.enter(['/bin/sh', '-c', run, path]);
  return new Promise((resolve) => {
    const child = spawn(command, words, {
      // A session of its own: it outlives the emulator as everything on a host does.
      detached: true,
      stdio: ['ignore', output, output],
      cwd: '/',
      env: { ...facts.env },
    });
    closeSync(output);
    child.on('error', () => resolve());
    child.on('close', () => resolve());
    child.unref();
  });
}

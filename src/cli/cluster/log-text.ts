// Log text: pieces of a cluster's logs as they are printed. Whole lines come in and go out; what has no mark to be put in
// front of it and nothing in it that could harm a terminal goes through as it came.

import type { ClusterPod } from '../../app/cluster/cluster.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import type { LogsFlags } from '../table/flags.ts';
import type { Cli } from '../context.ts';
import { decode } from '../logs/lines.ts';
import { inert, inertWord } from '../../app/figures.ts';
import { exactly, isInert } from '../output.ts';

export type LogText = ReturnType<typeof createLogText>;

/** Wait for the output after so many bytes, so that a slow reader slows the reading down. */
const writeSize = 256 * 1024;

/** All pieces of a log that has an end; of lines that are looked for, and are to be the last ones, only those. */
export async function* wantedOf(
  pieces: AsyncIterable<Uint8Array>,
  { grep, tail }: LogsFlags,
): AsyncIterable<Uint8Array> {
  if (grep === undefined || tail === undefined) yield* pieces;
  else yield await lastFound(pieces, grep, tail);
}

async function lastFound(pieces: AsyncIterable<Uint8Array>, grep: RegExp, most: number): Promise<Uint8Array> {
  let found: readonly Uint8Array[] = [];
  for await (const piece of pieces) {
    const lines = linesWith(piece, grep);
    if (lines.length > 0) found = [...found, ...lines].slice(Math.max(0, found.length + lines.length - most));
  }
  return Buffer.concat(found);
}

function linesWith(piece: Uint8Array, grep: RegExp): readonly Uint8Array[] {
  const lines: Uint8Array[] = [];
  for (let from = 0; from < piece.length;) {
    const end = piece.indexOf(lineEnd, from);
    const next = end < 0 ? piece.length : end + 1;
    if (grep.test(decode(piece.subarray(from, end < 0 ? next : end)))) lines.push(piece.subarray(from, next));
    from = next;
  }
  return lines;
}

const lineEnd = 0x0a;

/** `isMarked`: each line has its pod in front. */
export function createLogText(cli: Cli, flags: LogsFlags, isMarked: boolean) {
  const { stdout } = cli.io;
  const { grep } = flags;
  const colour = stdout.isTerminal && cli.screen.colour;
  let waiting = 0;

  /** A carriage return does no harm in a file, and progress bars are made of them. */
  const harmless = (text: string): string =>
    stdout.isTerminal
      ? inert(text, colour)
      : text
          .split('\r')
          .map((part) => inert(part))
          .join('\r');

  return {
    async write(pod: Pick<ClusterPod, 'name' | 'index'>, container: string, piece: Uint8Array): Promise<void> {
      if (stdout.closed) return;
      if (flags.raw === true) {
        for (const part of grep === undefined ? [piece] : linesWith(piece, grep)) stdout.write(part);
      } else {
        const text = decode(piece);
        const marks = [...(isMarked ? [markOf(pod)] : []), ...(flags.allContainers === true ? [container] : [])];
        const front = marks.length === 0 ? '' : `[${inertWord(marks.join('/'))}] `;
        if (!cli.json && grep === undefined && front === '' && isInert(text))
          stdout.write(stdout.isTerminal ? text : piece);
        else {
          const lines = text.split('\n');
          const hasEnd = lines.at(-1) === '';
          if (hasEnd) lines.pop();
          const wanted = grep === undefined ? lines : lines.filter((line) => grep.test(line));
          const shown = wanted.map((line) =>
            cli.json ? JSON.stringify({ pod: pod.name, container, text: line }) : front + harmless(line),
          );
          if (shown.length > 0) stdout.write(cli.json ? `${shown.join('\n')}\n` : exactly(`${shown.join('\n')}\n`));
        }
      }
      waiting += piece.length;
      if (waiting < writeSize) return;
      waiting = 0;
      await stdout.flush();
    },
    /** Nobody reads any more. */
    isOver: () => stdout.closed,
  };
}

/** The pod's number, else the end of its name, which is what tells it from the others. */
function markOf({ name, index }: Pick<ClusterPod, 'name' | 'index'>): string {
  return index === null ? name.slice(name.lastIndexOf('-') + 1) : String(index);
}

const foreign: readonly (readonly [flag: keyof LogsFlags, word: string, instead: string])[] = [
  ['step', '--step', 'a pod has containers: --container'],
  ['attempt', '--attempt', 'each attempt is a pod: --all-pods'],
  ['firstError', '--first-error', '--grep finds lines'],
];

/** Throws JobmanError for a flag that only jobs of the record have something for. */
export function expectForClusters(flags: LogsFlags): void {
  const stray = foreign.find(([flag]) => flags[flag] !== undefined && flags[flag] !== false);
  if (flags.allContainers === true && flags.container !== undefined) {
    throw new JobmanError(
      '--container names one container, and --all-containers means all: use only one of the two.',
      exitCode.usage,
    );
  }
  if (stray === undefined) return;
  throw new JobmanError(`${stray[1]} is not for a job of a cluster; ${stray[2]}.`, exitCode.usage);
}

// Prints cluster logs in whole lines. A piece without label and control sequences is written unchanged.

import type { ClusterPod } from '../../app/cluster/cluster.ts';
import { exitCode, JobmanError, usageError } from '../../app/errors.ts';
import type { LogsFlags } from '../table/flags.ts';
import type { Cli } from '../context.ts';
import { decode, formatForPipe } from '../logs/lines.ts';
import { escapeForTerminal, escapeLine } from '../../app/format.ts';
import { rawBytes, isSanitized } from '../output.ts';

export type LogPrinter = ReturnType<typeof createLogPrinter>;

/** Bytes after which the printer waits for the output, so that a slow reader slows the reading. */
const writeSize = 256 * 1024;

/** All pieces of a finite log; with `grep` and `tail`, only the last matching lines. */
export async function* wantedPieces(
  pieces: AsyncIterable<Uint8Array>,
  { grep, tail }: LogsFlags,
): AsyncIterable<Uint8Array> {
  if (grep === undefined || tail === undefined) yield* pieces;
  else yield await lastMatches(pieces, grep, tail);
}

async function lastMatches(pieces: AsyncIterable<Uint8Array>, grep: RegExp, most: number): Promise<Uint8Array> {
  let found: readonly Uint8Array[] = [];
  for await (const piece of pieces) {
    const lines = matchingLines(piece, grep);
    if (lines.length > 0) found = [...found, ...lines].slice(Math.max(0, found.length + lines.length - most));
  }
  return Buffer.concat(found);
}

function matchingLines(piece: Uint8Array, grep: RegExp): readonly Uint8Array[] {
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

export function createLogPrinter(cli: Cli, job: string, flags: LogsFlags, hasPodLabel: boolean) {
  const { stdout } = cli.io;
  const { grep } = flags;
  const colour = stdout.isTerminal && cli.screen.colour;
  let waiting = 0;

  const sanitize = (text: string): string =>
    stdout.isTerminal ? escapeForTerminal(text, colour) : formatForPipe(text);

  return {
    async write(pod: Pick<ClusterPod, 'name' | 'index'>, container: string, piece: Uint8Array): Promise<void> {
      if (stdout.closed) return;
      if (flags.raw === true) {
        for (const part of grep === undefined ? [piece] : matchingLines(piece, grep)) stdout.write(part);
      } else {
        const text = decode(piece);
        const labels = [...(hasPodLabel ? [podLabel(pod)] : []), ...(flags.allContainers === true ? [container] : [])];
        const front = labels.length === 0 ? '' : `[${escapeLine(labels.join('/'))}] `;
        if (!cli.json && grep === undefined && front === '' && isSanitized(text))
          stdout.write(stdout.isTerminal ? text : piece);
        else {
          const lines = text.split('\n');
          const hasEnd = lines.at(-1) === '';
          if (hasEnd) lines.pop();
          const wanted = grep === undefined ? lines : lines.filter((line) => grep.test(line));
          const shown = wanted.map((line) =>
            cli.json ? JSON.stringify({ job, pod: pod.name, container, text: line }) : front + sanitize(line),
          );
          if (shown.length > 0) stdout.write(cli.json ? `${shown.join('\n')}\n` : rawBytes(`${shown.join('\n')}\n`));
        }
      }
      waiting += piece.length;
      if (waiting < writeSize) return;
      waiting = 0;
      await stdout.flush();
    },
    isClosed: () => stdout.closed,
  };
}

/** Without a number the end of the pod's name, which is different for each pod. */
function podLabel({ name, index }: Pick<ClusterPod, 'name' | 'index'>): string {
  return index === null ? name.slice(name.lastIndexOf('-') + 1) : String(index);
}

const unsupportedFlags: readonly (readonly [flag: keyof LogsFlags, form: string, instead: string])[] = [
  ['step', '--step', 'a pod has containers: --container'],
  ['attempt', '--attempt', 'each attempt is a pod: --all-pods'],
  ['firstError', '--first-error', '--grep finds lines'],
];

/** Throws JobmanError (usage) for a flag that only jobs of the store support. */
export function expectClusterFlags(flags: LogsFlags): void {
  const unsupported = unsupportedFlags.find(([flag]) => flags[flag] !== undefined && flags[flag] !== false);
  if (flags.allContainers === true && flags.container !== undefined) {
    throw usageError('--container names one container, and --all-containers means all: use only one of the two.');
  }
  if (unsupported === undefined) return;
  throw new JobmanError(`${unsupported[1]} is not for a job in a cluster; ${unsupported[2]}.`, exitCode.usage);
}

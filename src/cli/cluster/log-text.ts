// Log text: pieces of a cluster's logs as they are printed. Whole lines come in and go out; what has no mark to be put in
// front of it and nothing in it that could harm a terminal goes through as it came.

import type { ClusterPod } from '../../app/cluster/cluster.ts';
import type { LogsFlags } from '../commands/logs.ts';
import type { Cli } from '../context.ts';
import { decode, inert, isInert } from '../render/inert.ts';

/** Where pieces go. */
export interface LogText {
  write(pod: Pick<ClusterPod, 'name' | 'index'>, container: string, piece: Uint8Array): Promise<void>;
  /** One container's log is over: of lines that were looked for, the last ones come out now. */
  end(): void;
  /** Nobody reads any more. */
  isOver(): boolean;
}

/** What is written is waited for after so many bytes, so that a slow reader slows the reading down. */
const writeSize = 256 * 1024;

/** `isMarked`: each line has its pod in front. */
export function createLogText(cli: Cli, flags: LogsFlags, isMarked: boolean): LogText {
  const { stdout } = cli.io;
  const { grep } = flags;
  /** How many of the lines that are found are wanted; known when the log is over. */
  const lastOnly = grep === undefined || flags.follow === true ? undefined : flags.tail;
  let found: readonly string[] = [];
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
    async write(pod, container, piece) {
      if (stdout.closed) return;
      if (flags.raw === true) stdout.write(piece);
      else {
        const text = decode(piece);
        const front = isMarked ? `[${markOf(pod)}] ` : '';
        if (!cli.json && grep === undefined && front === '' && isInert(text)) stdout.write(piece);
        else {
          const lines = text.split('\n');
          const hasEnd = lines.at(-1) === '';
          if (hasEnd) lines.pop();
          const wanted = grep === undefined ? lines : lines.filter((line) => grep.test(line));
          const shown = wanted.map((line) =>
            cli.json ? JSON.stringify({ pod: pod.name, container, text: line }) : front + harmless(line),
          );
          if (lastOnly !== undefined)
            found = [...found, ...shown].slice(Math.max(0, found.length + shown.length - lastOnly));
          else if (shown.length > 0) stdout.write(`${shown.join('\n')}\n`);
        }
      }
      waiting += piece.length;
      if (waiting < writeSize) return;
      waiting = 0;
      await stdout.flush();
    },
    end() {
      if (found.length > 0 && !stdout.closed) stdout.write(`${found.join('\n')}\n`);
      found = [];
    },
    isOver: () => stdout.closed,
  };
}

/** The pod's number, else the end of its name, which is what tells it from the others. */
function markOf({ name, index }: Pick<ClusterPod, 'name' | 'index'>): string {
  return index === null ? name.slice(name.lastIndexOf('-') + 1) : String(index);
}

// The window around the text: its title while something is waited for, and a ring when it is over.

import type { Stream } from '../app/services.ts';
import type { Cli } from './context.ts';
import { exactly } from './output.ts';
import { inertWord } from './render/inert.ts';

export interface Window {
  /** Sets the title; the same one again writes nothing. */
  title(text: string): void;
  /** Rings once, however often it is asked. */
  ring(): void;
  /** Gives the window the title back that it had. The end of the program does so too, whatever ends it. */
  close(): void;
}

/**
 * The window that a stream writes to. Where it is no terminal, where nothing is redrawn, or where the settings say no,
 * nothing is written. Throws what reading the settings throws.
 */
export async function openWindow(cli: Cli, stream: Stream, isLive: boolean): Promise<Window> {
  const { io, screen } = cli;
  const settings = (await cli.services.settings()).terminal;
  // The console of Linux has no title, and a terminal that tells nothing of itself may print the sequence.
  const hasTitle = settings.title && isLive && !/^(|dumb|linux)$/.test(io.env['TERM'] ?? '');
  const hasBell = settings.bell && stream.isTerminal && screen.progress !== 'none';
  let shown: string | undefined;
  let rang = false;
  let forget: (() => void) | undefined;

  function giveBack(): void {
    if (shown === undefined) return;
    shown = undefined;
    // Without a stack of titles, most terminals show their own for an empty one.
    stream.write(exactly(`${setTitle('')}${popTitle}`));
  }

  return {
    title(text) {
      if (!hasTitle || text === shown) return;
      if (shown === undefined) {
        stream.write(exactly(pushTitle));
        forget = io.atExit(giveBack);
      }
      shown = text;
      stream.write(exactly(setTitle(inertWord(text))));
    },
    ring() {
      if (!hasBell || rang) return;
      rang = true;
      stream.write(exactly('\u0007'));
    },
    close() {
      forget?.();
      forget = undefined;
      giveBack();
    },
  };
}

/** Operating system command 2, ended by BEL, which every terminal that has titles takes (xterm's ctlseqs). */
function setTitle(text: string): string {
  return `\u001b]2;${text}\u0007`;
}

/** XTWINOPS 22 and 23 of xterm's ctlseqs: the title is put on a stack and taken from it. */
const pushTitle = '\u001b[22;2t';
const popTitle = '\u001b[23;2t';

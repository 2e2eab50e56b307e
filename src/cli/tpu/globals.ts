// The flags that every command of `tpu` takes, wherever they stand.

import type { GlobalFlags } from '../context.ts';
import { globalFlags, mark, word } from '../flags.ts';
import { globalsApart, scan } from '../scan.ts';

/** One letter is rare among them: most letters are words of the commands' own. */
export const tpuGlobals = {
  user: word('Who you are, where several people share a login; TPU_USER says it for good', 'name'),
  ...globalFlags,
  quiet: mark('Print results only'),
  settings: word('A file of settings that stands over the others', 'file'),
};

export interface TpuGlobals extends GlobalFlags {
  readonly user?: string;
  readonly help?: boolean;
}

/** Parts a line into these flags and all other words. Behind `--` nothing is a flag. Throws JobmanError (2). */
export function splitGlobals(argv: readonly string[]): {
  readonly flags: TpuGlobals;
  readonly rest: readonly string[];
} {
  const { own, rest } = globalsApart(tpuGlobals, argv);
  // These are the values of the very flags that were parsed.
  return { flags: scan(tpuGlobals, [], own).flags as unknown as TpuGlobals, rest };
}

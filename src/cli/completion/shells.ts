// The shells that jobman completes in.

export const shells = ['bash', 'zsh', 'fish'] as const;
export type Shell = (typeof shells)[number];

/** Throws an Error that names the shells when it is none of them. */
export function parseShell(text: string): Shell {
  const shell = shells.find((name) => name === text);
  if (shell === undefined) throw new Error(`expected one of ${shells.join(', ')}`);
  return shell;
}

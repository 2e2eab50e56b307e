// The shells that jobman completes in.

export const shells = ['bash', 'zsh', 'fish'] as const;
export type Shell = (typeof shells)[number];

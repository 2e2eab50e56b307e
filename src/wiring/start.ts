// Start: everything that main.ts needs, as one file to load.

export { usageError } from '../app/errors.ts';
export { isGroupShared as isShared, sharedUmask } from '../files/files.ts';
export { run } from '../cli/run.ts';
export { createServices } from './services.ts';

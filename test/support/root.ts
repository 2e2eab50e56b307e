import { join } from 'node:path';

/** The top folder of the repository. */
export const root: string = join(import.meta.dirname, '../..');

/** The virtual environment for the programs of the docs, outside of the checkout. */
import { homedir } from 'node:os';
import { join } from 'node:path';

/** Packages that pip installs there. */
export const examplesPackages = ['jax==0.10.2', 'jaxlib==0.10.2', 'orbax-checkpoint==0.12.8'] as const;

export const examplesFolder = join(homedir(), '.cache', 'jobman', 'examples-jax-0.10.2');

export const examplesPython = join(examplesFolder, 'bin', 'python');

import { readdirSync, statSync } from 'node:fs';
import { hostname } from 'node:os';
import { readRegularFile } from './files.ts';
import type { LocalFolders } from '../app/ports.ts';

export const localFolders: LocalFolders = {
  host: hostname(),
  list(folder) {
    try {
      return readdirSync(folder, { withFileTypes: true }).map((entry) => ({
        name: entry.name,
        isFolder: entry.isDirectory(),
      }));
    } catch {
      return [];
    }
  },
  changedAt(path) {
    try {
      return statSync(path).mtimeMs;
    } catch {
      return null;
    }
  },
  text(path) {
    try {
      return readRegularFile(path).toString('utf8');
    } catch {
      return '';
    }
  },
};

// The pages: the first segment of their address, their name, their key, and their code, which the browser loads when a page opens.

import type { ComponentType } from 'preact';
import type { PageName } from '../api/page-names.ts';

export interface Page {
  readonly path: PageName;
  readonly title: string;
  /** Opens the page after `g`. */
  readonly key: string;
  readonly load: Load;
  /** The page of one object: `/jobs/000042`. */
  readonly loadOne?: Load;
  /** The pages of a part of one object: `/jobs/000042/logs`. */
  readonly parts?: ReadonlyMap<string, Load>;
}

type Load = () => Promise<ComponentType>;

/** In the order of the menu. */
export const pages: readonly Page[] = [
  {
    path: 'jobs',
    title: 'Jobs',
    key: 'j',
    load: async () => (await import('./jobs/page.tsx')).JobsPage,
    loadOne: async () => (await import('./job/page.tsx')).JobPage,
    parts: new Map<string, Load>([
      ['logs', async () => (await import('./logs/page.tsx')).LogsPage],
      ['cluster', async () => (await import('./clusters/page.tsx')).ClusterJobPage],
    ]),
  },
  { path: 'queue', title: 'Queue', key: 'q', load: async () => (await import('./queue/page.tsx')).QueuePage },
  { path: 'tpus', title: 'TPUs', key: 't', load: async () => (await import('./tpus/page.tsx')).TpusPage },
  { path: 'lab', title: 'Lab', key: 'l', load: async () => (await import('./lab/page.tsx')).LabPage },
  { path: 'reports', title: 'Reports', key: 'p', load: async () => (await import('./reports/page.tsx')).ReportsPage },
  { path: 'create', title: 'Create', key: 'n', load: async () => (await import('./create/page.tsx')).CreatePage },
  {
    path: 'settings',
    title: 'Settings',
    key: 's',
    load: async () => (await import('./settings/page.tsx')).SettingsPage,
  },
  { path: 'users', title: 'Users', key: 'u', load: async () => (await import('./access/users-page.tsx')).UsersPage },
  {
    path: 'tokens',
    title: 'Tokens',
    key: 'o',
    load: async () => (await import('./access/tokens-page.tsx')).TokensPage,
  },
  { path: 'audit', title: 'Audit', key: 'a', load: async () => (await import('./access/audit-page.tsx')).AuditPage },
];

/** First segments of the addresses of the dashboard's pages. The server answers each with the document of the dashboard. */
export const pageNames = [
  'jobs',
  'queue',
  'tpus',
  'lab',
  'reports',
  'create',
  'settings',
  'users',
  'tokens',
  'audit',
] as const;

export type PageName = (typeof pageNames)[number];

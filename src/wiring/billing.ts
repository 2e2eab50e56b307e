// Billing: the export of billed costs, built from settings.

import type { BillingExport } from '../app/billing-export.ts';
import type { Services } from '../app/services.ts';
import { createBillingExport, projectOfTable } from '../google/billing-export.ts';
import { createCredentials } from '../backends/tpu/credentials.ts';
import { createGoogleLogin } from './google-api.ts';

const bigQueryServer = 'https://bigquery.googleapis.com';

/** See `Clouds.billing`. */
export async function openBillingExport(services: Services): Promise<BillingExport | null> {
  const { io } = services;
  const settings = await services.settings();
  const { exportTable: table, queryProject, maxQueryBytes } = settings.billing;
  if (table === null) return null;
  const endpoint = (settings.google.endpoints.bigquery ?? bigQueryServer).replace(/\/+$/, '');
  const login = createGoogleLogin({ io, settings, now: () => io.now() });
  return createBillingExport({
    table,
    project: queryProject ?? projectOfTable(table),
    maxQueryBytes,
    endpoint,
    login: createCredentials({ endpoint: async () => endpoint, login }),
  });
}

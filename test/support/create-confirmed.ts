import type { Client, CreatedJob, CreateRequest } from '../../src/app/client.ts';

/** Confirms every reason against the job, such as its price. */
export async function createConfirmed(client: Pick<Client, 'create'>, request: CreateRequest): Promise<CreatedJob> {
  const first = await client.create(request);
  if (first.kind === 'created') return first;
  const confirmed = first.confirmation.reasons.flatMap(({ token }) => token ?? []);
  const second = await client.create({ ...request, confirmed });
  if (second.kind === 'created') return second;
  throw new Error(`not created: ${second.confirmation.reasons.map(({ message }) => message).join('; ')}`);
}

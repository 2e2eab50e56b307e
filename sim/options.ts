// The flags of `npm run sim`. A test compares the command lines of the hosted workflow with them.

export const simOptions = {
  seeds: { type: 'string' },
  seed: { type: 'string' },
  mutant: { type: 'string' },
  lab: { type: 'boolean', default: false },
  afternoon: { type: 'boolean', default: false },
  fault: { type: 'string' },
  trace: { type: 'boolean', default: false },
  'keep-going': { type: 'boolean', default: false },
  found: { type: 'string' },
} as const;

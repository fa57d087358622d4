/**
 * The tier of a test file. `npm test` runs the fast tier, which should find a wrong change; `npm run test:long` runs
 * the long one: campaigns, kills, restarts. Every test file is in exactly one tier, by its folder.
 */

export const tiers = ['fast', 'long'] as const;
export type Tier = (typeof tiers)[number];

export function tierOf(file: string): Tier {
  return file.startsWith('test/long/') ? 'long' : 'fast';
}

/** Tests with clusters of real processes, which need the whole machine. */
export function isProcessTest(file: string): boolean {
  return /^test\/(?:processes|browser|long)\//.test(file);
}

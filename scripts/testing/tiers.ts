/**
 * Which test file runs when. `npm test` is the fast tier: what tells that a change is wrong. `npm run test:long` is
 * the long one: campaigns, kills, restarts. Every test file is in exactly one, by its folder.
 */

export const tiers = ['fast', 'long'] as const;
export type Tier = (typeof tiers)[number];

export function tierOf(file: string): Tier {
  return file.startsWith('test/long/') ? 'long' : 'fast';
}

/** Tests that start clusters of real processes need the machine for themselves. */
export function isProcessTest(file: string): boolean {
  return /^test\/(?:processes|browser|long)\//.test(file);
}

/**
 * The sum of the numbers from 1 to 100,000 on several cores: each item adds up a share, and the second workflow adds up
 * the shares. Kill a worker while it runs: the sum stays correct.
 *
 *   remuster run examples/sum.ts
 */
import { workflow } from 'remuster';

const shareSize = 1_000;

export const shares = workflow('shares', {
  cores: 4,
  items: 100,
  each: (share) => {
    let sum = 0;
    for (let n = share * shareSize + 1; n <= (share + 1) * shareSize; n++) sum += n;
    return sum;
  },
});

export default workflow('sum', {
  after: ['shares'],
  items: (ctx) => [ctx.from(shares)],
  each: (all) => all.reduce((sum: number, share) => sum + (share ?? 0), 0),
});

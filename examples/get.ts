/**
 * The smallest load test: users that ask for one page again and again, and look at the status.
 *
 *   remuster run examples/get.ts --env TARGET=http://127.0.0.1:8080 --vus 64 --duration 30s
 */
import { workflow } from 'remuster';

export const get = workflow('get', {
  vus: 64,
  duration: '10s',
  steps: {
    get: async (ctx) => ctx.check(await ctx.http.get(`${ctx.env.TARGET}/`), (answer) => answer.status === 200),
  },
});

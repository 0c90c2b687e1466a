package runtime

// Homes returns how many keys the client keeps a home for.
func Homes(c *Client) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.homes) + len(c.rws)
}

// Turnstiles returns how many keys that count the client knows of.
func Turnstiles(c *Client) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.turnstiles)
}

// Fairs returns how many fair locks the client knows of.
func Fairs(c *Client) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.fairs)
}

broom::tidy(sel, conf.int = TRUE)
broom::glance(sel)
